// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import { Construct } from 'constructs';

export interface SessyncDataProps {
  /**
   * The environment
   * @default 'local'
   */
  readonly environment?: string;
  /**
   * Whether machines share their state
   * @default 'off'
   */
  readonly sessyncState?: string;
  /**
   * The table
   * @default 'sessync-state'
   */
  readonly sessyncStateTableName?: string;
}

/**
 * The state that developers' machines share
 */
export class SessyncData extends Construct {
  public constructor(scope: Construct, id: string, props: SessyncDataProps = {}) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      environment: props.environment ?? 'local',
      sessyncState: props.sessyncState ?? 'off',
      sessyncStateTableName: props.sessyncStateTableName ?? 'sessync-state',
    };

    // Conditions
    const isProd = props.environment! === 'prod';
    const sessyncStateIsOn = props.sessyncState! === 'on';

    // Resources
    const sessyncStateTable = sessyncStateIsOn
      ? new dynamodb.CfnTable(this, 'SessyncStateTable', {
          tableName: props.sessyncStateTableName!,
          billingMode: 'PAY_PER_REQUEST',
          attributeDefinitions: [
            {
              attributeName: 'event_key',
              attributeType: 'S',
            },
          ],
          keySchema: [
            {
              attributeName: 'event_key',
              keyType: 'HASH',
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
        })
      : undefined;
    if (sessyncStateTable != null) {
      sessyncStateTable.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;
    }
  }
}
