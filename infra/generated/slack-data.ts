// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

export interface SlackDataProps {
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
   * Which events and files have been handled
   * @default 'slack-classify-bot-processed-events'
   */
  readonly processedEventsTableName?: string;
}

/**
 * Slack file events, handled once
 */
export class SlackData extends Construct {
  /**
   * The queue of events that Lambda gave up on
   */
  public readonly slackFilesFailuresUrl;
  public readonly processedEventsTableArn;
  public readonly processedEventsTableRef;
  public readonly slackFilesFailuresArn;
  public readonly slackFilesFailuresQueueName;

  public constructor(scope: Construct, id: string, props: SlackDataProps = {}) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      environment: props.environment ?? 'local',
      suffix: props.suffix ?? '',
      processedEventsTableName: props.processedEventsTableName ?? 'slack-classify-bot-processed-events',
    };

    // Conditions
    const isProd = props.environment! === 'prod';

    // Resources
    const processedEventsTable = new dynamodb.CfnTable(this, 'ProcessedEventsTable', {
      tableName: props.processedEventsTableName!,
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
      tags: [
        {
          key: 'Application',
          value: 'slack-classify-bot',
        },
      ],
    });
    processedEventsTable.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const slackFilesFailures = new sqs.CfnQueue(this, 'SlackFilesFailures', {
      queueName: `slack-files-failures${props.suffix!}`,
      messageRetentionPeriod: 1209600,
      sqsManagedSseEnabled: true,
    });
    slackFilesFailures.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const slackFilesFailuresPolicy = new sqs.CfnQueuePolicy(this, 'SlackFilesFailuresPolicy', {
      queues: [
        slackFilesFailures.ref,
      ],
      policyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Sid: 'TlsOnly',
            Effect: 'Deny',
            Principal: '*',
            Action: 'sqs:*',
            Resource: slackFilesFailures.attrArn,
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
    this.slackFilesFailuresUrl = slackFilesFailures.ref;
    new cdk.CfnOutput(this, 'CfnOutputSlackFilesFailuresUrl', {
      key: 'SlackFilesFailuresUrl',
      description: 'The queue of events that Lambda gave up on',
      value: this.slackFilesFailuresUrl!.toString(),
    });
    this.processedEventsTableArn = processedEventsTable.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputProcessedEventsTableArn', {
      key: 'ProcessedEventsTableArn',
      value: this.processedEventsTableArn!.toString(),
    });
    this.processedEventsTableRef = processedEventsTable.ref;
    new cdk.CfnOutput(this, 'CfnOutputProcessedEventsTableRef', {
      key: 'ProcessedEventsTableRef',
      value: this.processedEventsTableRef!.toString(),
    });
    this.slackFilesFailuresArn = slackFilesFailures.attrArn;
    new cdk.CfnOutput(this, 'CfnOutputSlackFilesFailuresArn', {
      key: 'SlackFilesFailuresArn',
      value: this.slackFilesFailuresArn!.toString(),
    });
    this.slackFilesFailuresQueueName = slackFilesFailures.attrQueueName;
    new cdk.CfnOutput(this, 'CfnOutputSlackFilesFailuresQueueName', {
      key: 'SlackFilesFailuresQueueName',
      value: this.slackFilesFailuresQueueName!.toString(),
    });
  }
}
