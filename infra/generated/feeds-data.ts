// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

export interface FeedsDataProps {
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
   * What is known and owed of GitHub's feed
   * @default 'masutaka-feed-github-state'
   */
  readonly githubStateTableName?: string;
  /**
   * What is known and owed of Hatena Bookmark's feed
   * @default 'masutaka-feed-hatebu-state'
   */
  readonly hatebuStateTableName?: string;
  /**
   * What is known and owed of every further feed
   * @default 'feeds-state'
   */
  readonly feedsStateTableName?: string;
}

/**
 * Feeds: every entry delivered, none twice
 */
export class FeedsData extends Construct {
  /**
   * What is known and owed of GitHub's feed
   */
  public readonly githubStateTableOutput;
  /**
   * What is known and owed of Hatena Bookmark's feed
   */
  public readonly hatebuStateTableOutput;
  /**
   * What is known and owed of every further feed
   */
  public readonly feedsStateTableOutput;
  public readonly githubSubscriberFailuresArn;
  public readonly githubStateTableArn;
  public readonly githubStateTableRef;
  public readonly hatebuSubscriberFailuresArn;
  public readonly hatebuStateTableArn;
  public readonly hatebuStateTableRef;
  public readonly feedsSubscriberFailuresArn;
  public readonly feedsStateTableArn;
  public readonly feedsStateTableRef;

  public constructor(scope: Construct, id: string, props: FeedsDataProps = {}) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      environment: props.environment ?? 'local',
      suffix: props.suffix ?? '',
      githubStateTableName: props.githubStateTableName ?? 'masutaka-feed-github-state',
      hatebuStateTableName: props.hatebuStateTableName ?? 'masutaka-feed-hatebu-state',
      feedsStateTableName: props.feedsStateTableName ?? 'feeds-state',
    };

    // Conditions
    const isProd = props.environment! === 'prod';

    // Resources
    const feedsStateTable = new dynamodb.CfnTable(this, 'FeedsStateTable', {
      tableName: props.feedsStateTableName!,
      billingMode: 'PAY_PER_REQUEST',
      attributeDefinitions: [
        {
          attributeName: 'entry_id',
          attributeType: 'S',
        },
        {
          attributeName: 'pending',
          attributeType: 'S',
        },
        {
          attributeName: 'pending_order',
          attributeType: 'S',
        },
      ],
      keySchema: [
        {
          attributeName: 'entry_id',
          keyType: 'HASH',
        },
      ],
      globalSecondaryIndexes: [
        {
          indexName: 'pending',
          keySchema: [
            {
              attributeName: 'pending',
              keyType: 'HASH',
            },
            {
              attributeName: 'pending_order',
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
    feedsStateTable.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const feedsSubscriberFailures = new sqs.CfnQueue(this, 'FeedsSubscriberFailures', {
      queueName: `feeds-subscriber-failures${props.suffix!}`,
      messageRetentionPeriod: 1209600,
      sqsManagedSseEnabled: true,
    });
    feedsSubscriberFailures.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const githubStateTable = new dynamodb.CfnTable(this, 'GithubStateTable', {
      tableName: props.githubStateTableName!,
      billingMode: 'PAY_PER_REQUEST',
      attributeDefinitions: [
        {
          attributeName: 'entry_id',
          attributeType: 'S',
        },
        {
          attributeName: 'pending',
          attributeType: 'S',
        },
        {
          attributeName: 'pending_order',
          attributeType: 'S',
        },
      ],
      keySchema: [
        {
          attributeName: 'entry_id',
          keyType: 'HASH',
        },
      ],
      globalSecondaryIndexes: [
        {
          indexName: 'pending',
          keySchema: [
            {
              attributeName: 'pending',
              keyType: 'HASH',
            },
            {
              attributeName: 'pending_order',
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
    githubStateTable.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const githubSubscriberFailures = new sqs.CfnQueue(this, 'GithubSubscriberFailures', {
      queueName: `github-subscriber-failures${props.suffix!}`,
      messageRetentionPeriod: 1209600,
      sqsManagedSseEnabled: true,
    });
    githubSubscriberFailures.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const hatebuStateTable = new dynamodb.CfnTable(this, 'HatebuStateTable', {
      tableName: props.hatebuStateTableName!,
      billingMode: 'PAY_PER_REQUEST',
      attributeDefinitions: [
        {
          attributeName: 'entry_id',
          attributeType: 'S',
        },
        {
          attributeName: 'pending',
          attributeType: 'S',
        },
        {
          attributeName: 'pending_order',
          attributeType: 'S',
        },
      ],
      keySchema: [
        {
          attributeName: 'entry_id',
          keyType: 'HASH',
        },
      ],
      globalSecondaryIndexes: [
        {
          indexName: 'pending',
          keySchema: [
            {
              attributeName: 'pending',
              keyType: 'HASH',
            },
            {
              attributeName: 'pending_order',
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
    hatebuStateTable.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const hatebuSubscriberFailures = new sqs.CfnQueue(this, 'HatebuSubscriberFailures', {
      queueName: `hatebu-subscriber-failures${props.suffix!}`,
      messageRetentionPeriod: 1209600,
      sqsManagedSseEnabled: true,
    });
    hatebuSubscriberFailures.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const feedsSubscriberFailuresPolicy = new sqs.CfnQueuePolicy(this, 'FeedsSubscriberFailuresPolicy', {
      queues: [
        feedsSubscriberFailures.ref,
      ],
      policyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Sid: 'TlsOnly',
            Effect: 'Deny',
            Principal: '*',
            Action: 'sqs:*',
            Resource: feedsSubscriberFailures.attrArn,
            Condition: {
              Bool: {
                'aws:SecureTransport': 'false',
              },
            },
          },
        ],
      },
    });

    const githubSubscriberFailuresPolicy = new sqs.CfnQueuePolicy(this, 'GithubSubscriberFailuresPolicy', {
      queues: [
        githubSubscriberFailures.ref,
      ],
      policyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Sid: 'TlsOnly',
            Effect: 'Deny',
            Principal: '*',
            Action: 'sqs:*',
            Resource: githubSubscriberFailures.attrArn,
            Condition: {
              Bool: {
                'aws:SecureTransport': 'false',
              },
            },
          },
        ],
      },
    });

    const hatebuSubscriberFailuresPolicy = new sqs.CfnQueuePolicy(this, 'HatebuSubscriberFailuresPolicy', {
      queues: [
        hatebuSubscriberFailures.ref,
      ],
      policyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Sid: 'TlsOnly',
            Effect: 'Deny',
            Principal: '*',
            Action: 'sqs:*',
            Resource: hatebuSubscriberFailures.attrArn,
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
    this.githubStateTableOutput = githubStateTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputGithubStateTableOutput', {
      key: 'GithubStateTableOutput',
      description: 'What is known and owed of GitHub\'s feed',
      value: this.githubStateTableOutput!.toString(),
    });
    this.hatebuStateTableOutput = hatebuStateTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputHatebuStateTableOutput', {
      key: 'HatebuStateTableOutput',
      description: 'What is known and owed of Hatena Bookmark\'s feed',
      value: this.hatebuStateTableOutput!.toString(),
    });
    this.feedsStateTableOutput = feedsStateTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputFeedsStateTableOutput', {
      key: 'FeedsStateTableOutput',
      description: 'What is known and owed of every further feed',
      value: this.feedsStateTableOutput!.toString(),
    });
    this.githubSubscriberFailuresArn = githubSubscriberFailures.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputGithubSubscriberFailuresArn', {
      key: 'GithubSubscriberFailuresArn',
      value: this.githubSubscriberFailuresArn!.toString(),
    });
    this.githubStateTableArn = githubStateTable.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputGithubStateTableArn', {
      key: 'GithubStateTableArn',
      value: this.githubStateTableArn!.toString(),
    });
    this.githubStateTableRef = githubStateTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputGithubStateTableRef', {
      key: 'GithubStateTableRef',
      value: this.githubStateTableRef!.toString(),
    });
    this.hatebuSubscriberFailuresArn = hatebuSubscriberFailures.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputHatebuSubscriberFailuresArn', {
      key: 'HatebuSubscriberFailuresArn',
      value: this.hatebuSubscriberFailuresArn!.toString(),
    });
    this.hatebuStateTableArn = hatebuStateTable.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputHatebuStateTableArn', {
      key: 'HatebuStateTableArn',
      value: this.hatebuStateTableArn!.toString(),
    });
    this.hatebuStateTableRef = hatebuStateTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputHatebuStateTableRef', {
      key: 'HatebuStateTableRef',
      value: this.hatebuStateTableRef!.toString(),
    });
    this.feedsSubscriberFailuresArn = feedsSubscriberFailures.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputFeedsSubscriberFailuresArn', {
      key: 'FeedsSubscriberFailuresArn',
      value: this.feedsSubscriberFailuresArn!.toString(),
    });
    this.feedsStateTableArn = feedsStateTable.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputFeedsStateTableArn', {
      key: 'FeedsStateTableArn',
      value: this.feedsStateTableArn!.toString(),
    });
    this.feedsStateTableRef = feedsStateTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputFeedsStateTableRef', {
      key: 'FeedsStateTableRef',
      value: this.feedsStateTableRef!.toString(),
    });
  }
}
