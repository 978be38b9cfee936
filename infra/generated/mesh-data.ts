// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

export interface MeshDataProps {
  /**
   * The environment
   * @default 'local'
   */
  readonly environment?: string;
  /**
   * The end of every name; empty in prod, -ENVIRONMENT elsewhere
   * @default ''
   */
  readonly suffix?: string;
  /**
   * Groups, members, statuses and messages
   * @default 'MeshV2Table'
   */
  readonly meshTableName?: string;
}

/**
 * Realtime groups of nodes
 */
export class MeshData extends Construct {
  public readonly meshResolverFailuresArn;
  public readonly meshTableArn;
  public readonly meshTableRef;

  public constructor(scope: Construct, id: string, props: MeshDataProps = {}) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      environment: props.environment ?? 'local',
      suffix: props.suffix ?? '',
      meshTableName: props.meshTableName ?? 'MeshV2Table',
    };

    // Conditions
    const isProd = props.environment! === 'prod';

    // Resources
    const meshResolverFailures = new sqs.CfnQueue(this, 'MeshResolverFailures', {
      queueName: `mesh-resolver-failures${props.suffix!}`,
      messageRetentionPeriod: 1209600,
      sqsManagedSseEnabled: true,
    });
    meshResolverFailures.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const meshTable = new dynamodb.CfnTable(this, 'MeshTable', {
      tableName: props.meshTableName!,
      billingMode: 'PAY_PER_REQUEST',
      attributeDefinitions: [
        {
          attributeName: 'pk',
          attributeType: 'S',
        },
        {
          attributeName: 'sk',
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
          attributeName: 'pk',
          keyType: 'HASH',
        },
        {
          attributeName: 'sk',
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
            projectionType: 'INCLUDE',
            nonKeyAttributes: [
              'groupId',
              'domain',
              'name',
              'hostId',
              'createdAt',
              'expiresAt',
              'hostFreshUntil',
              'useWebSocket',
              'secured',
              'caller',
              'nodeId',
              'data',
              'timestamp',
              'ttl',
            ],
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
    meshTable.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const meshResolverFailuresPolicy = new sqs.CfnQueuePolicy(this, 'MeshResolverFailuresPolicy', {
      queues: [
        meshResolverFailures.ref,
      ],
      policyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Sid: 'TlsOnly',
            Effect: 'Deny',
            Principal: '*',
            Action: 'sqs:*',
            Resource: meshResolverFailures.attrArn,
            Condition: {
              Bool: {
                'aws:SecureTransport': 'false',
              },
            },
          },
        ],
      },
    });

    // Outputs
    this.meshResolverFailuresArn = meshResolverFailures.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputMeshResolverFailuresArn', {
      key: 'MeshResolverFailuresArn',
      value: this.meshResolverFailuresArn!.toString(),
    });
    this.meshTableArn = meshTable.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputMeshTableArn', {
      key: 'MeshTableArn',
      value: this.meshTableArn!.toString(),
    });
    this.meshTableRef = meshTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputMeshTableRef', {
      key: 'MeshTableRef',
      value: this.meshTableRef!.toString(),
    });
  }
}
