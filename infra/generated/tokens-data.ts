// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import { Construct } from 'constructs';

export interface TokensDataProps {
  /**
   * The environment
   * @default 'local'
   */
  readonly environment?: string;
  /**
   * Accounts, ledger entries and idempotency records
   * @default 'tokens-ledger'
   */
  readonly tokensTableName?: string;
}

/**
 * Transfers between accounts that move money once
 */
export class TokensData extends Construct {
  /**
   * Accounts, ledger entries and idempotency records
   */
  public readonly tokensTableOutput;
  public readonly tokensTableArn;
  public readonly tokensTableRef;

  public constructor(scope: Construct, id: string, props: TokensDataProps = {}) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      environment: props.environment ?? 'local',
      tokensTableName: props.tokensTableName ?? 'tokens-ledger',
    };

    // Conditions
    const isProd = props.environment! === 'prod';

    // Resources
    const tokensTable = new dynamodb.CfnTable(this, 'TokensTable', {
      tableName: props.tokensTableName!,
      billingMode: 'PAY_PER_REQUEST',
      attributeDefinitions: [
        {
          attributeName: 'PK',
          attributeType: 'S',
        },
        {
          attributeName: 'SK',
          attributeType: 'S',
        },
        {
          attributeName: 'GSI1PK',
          attributeType: 'S',
        },
        {
          attributeName: 'GSI1SK',
          attributeType: 'S',
        },
      ],
      keySchema: [
        {
          attributeName: 'PK',
          keyType: 'HASH',
        },
        {
          attributeName: 'SK',
          keyType: 'RANGE',
        },
      ],
      globalSecondaryIndexes: [
        {
          indexName: 'GSI1',
          keySchema: [
            {
              attributeName: 'GSI1PK',
              keyType: 'HASH',
            },
            {
              attributeName: 'GSI1SK',
              keyType: 'RANGE',
            },
          ],
          projection: {
            projectionType: 'ALL',
          },
        },
      ],
      timeToLiveSpecification: {
        attributeName: 'ttl',
        enabled: true,
      },
      sseSpecification: {
        sseEnabled: false,
      },
      pointInTimeRecoverySpecification: {
        pointInTimeRecoveryEnabled: isProd ? true : false,
      },
      deletionProtectionEnabled: isProd ? true : false,
    });
    tokensTable.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    // Outputs
    this.tokensTableOutput = tokensTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputTokensTableOutput', {
      key: 'TokensTableOutput',
      description: 'Accounts, ledger entries and idempotency records',
      value: this.tokensTableOutput!.toString(),
    });
    this.tokensTableArn = tokensTable.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputTokensTableArn', {
      key: 'TokensTableArn',
      value: this.tokensTableArn!.toString(),
    });
    this.tokensTableRef = tokensTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputTokensTableRef', {
      key: 'TokensTableRef',
      value: this.tokensTableRef!.toString(),
    });
  }
}
