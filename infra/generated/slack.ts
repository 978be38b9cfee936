// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';

export interface SlackProps {
  /**
   * The end of every name; empty in prod, -ENVIRONMENT elsewhere
   * @default ''
   */
  readonly suffix?: string;
  /**
   * The architecture that the binaries were built for
   * @default 'arm64'
   */
  readonly architecture?: string;
  /**
   * The bucket that holds the zips of the functions
   * @default 'code'
   */
  readonly codeBucket?: string;
  /**
   * debug, info, warn or error
   * @default 'info'
   */
  readonly logLevel?: string;
  /**
   * How long log lines are kept
   * @default 30
   */
  readonly logRetentionDays?: number;
  /**
   * X-Ray; Active records one request per second and 5 % of the others
   * @default 'Active'
   */
  readonly tracingMode?: string;
  /**
   * Where alarms go (shared.yaml)
   * @default 'arn:aws:sns:ap-northeast-1:000000000000:ichido-alarms'
   */
  readonly alarmTopicArn?: string;
  /**
   * The HTTP API (shared.yaml)
   * @default 'local'
   */
  readonly httpApiId?: string;
  /**
   * While the table cannot be reached, open handles events once per instance; closed refuses them
   * @default 'open'
   */
  readonly dedupFallback?: string;
  /**
   * The app's bot id; its own uploads are ignored
   * @default 'B00000000'
   */
  readonly slackBotId?: string;
  /**
   * The app's bot user id; its own uploads are ignored
   * @default 'U00000000'
   */
  readonly slackBotUserId?: string;
  /**
   * The Web API of Slack
   * @default 'https://slack.com/api'
   */
  readonly slackApiUrl?: string;
  /**
   * Ids of channels, separated by commas, in which a content that was handled before gets a link instead; * is all, empty is none
   * @default ''
   */
  readonly slackSameContentChannels?: string;
  /**
   * For how long a content is known
   * @default 24
   */
  readonly slackSameContentHours?: number;
  /**
   * Name of the SecureString with the signing secret (two, separated by a comma, during a rotation)
   * @default '/ichido/local/slack/signing-secret'
   */
  readonly slackSigningSecretParameter?: string;
  /**
   * Name of the SecureString with the bot's token
   * @default '/ichido/local/slack/bot-token'
   */
  readonly slackBotTokenParameter?: string;
  /**
   * The zip in the bucket
   * @default 'slack-events.zip'
   */
  readonly slackEventsCodeKey?: string;
  /**
   * The zip in the bucket
   * @default 'slack-files.zip'
   */
  readonly slackFilesCodeKey?: string;
  /**
   * ProcessedEventsTableArn of slack-data
   */
  readonly processedEventsTableArn: string;
  /**
   * ProcessedEventsTableRef of slack-data
   */
  readonly processedEventsTableRef: string;
  /**
   * SlackFilesFailuresArn of slack-data
   */
  readonly slackFilesFailuresArn: string;
  /**
   * SlackFilesFailuresQueueName of slack-data
   */
  readonly slackFilesFailuresQueueName: string;
}

/**
 * Slack file events, handled once
 */
export class Slack extends Construct {
  /**
   * The path after the address of the HTTP API in Slack's Request URL
   */
  public readonly slackRequestUrlPath;

  public constructor(scope: Construct, id: string, props: SlackProps) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      suffix: props.suffix ?? '',
      architecture: props.architecture ?? 'arm64',
      codeBucket: props.codeBucket ?? 'code',
      logLevel: props.logLevel ?? 'info',
      logRetentionDays: props.logRetentionDays ?? 30,
      tracingMode: props.tracingMode ?? 'Active',
      alarmTopicArn: props.alarmTopicArn ?? 'arn:aws:sns:ap-northeast-1:000000000000:ichido-alarms',
      httpApiId: props.httpApiId ?? 'local',
      dedupFallback: props.dedupFallback ?? 'open',
      slackBotId: props.slackBotId ?? 'B00000000',
      slackBotUserId: props.slackBotUserId ?? 'U00000000',
      slackApiUrl: props.slackApiUrl ?? 'https://slack.com/api',
      slackSameContentChannels: props.slackSameContentChannels ?? '',
      slackSameContentHours: props.slackSameContentHours ?? 24,
      slackSigningSecretParameter: props.slackSigningSecretParameter ?? '/ichido/local/slack/signing-secret',
      slackBotTokenParameter: props.slackBotTokenParameter ?? '/ichido/local/slack/bot-token',
      slackEventsCodeKey: props.slackEventsCodeKey ?? 'slack-events.zip',
      slackFilesCodeKey: props.slackFilesCodeKey ?? 'slack-files.zip',
    };

    // Resources
    const slackEventsLogGroup = new logs.CfnLogGroup(this, 'SlackEventsLogGroup', {
      logGroupName: `/aws/lambda/slack-events${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const slackFilesFailuresAlarm = new cloudwatch.CfnAlarm(this, 'SlackFilesFailuresAlarm', {
      alarmName: `slack-files-dead-letters${props.suffix!}`,
      alarmDescription: 'Lambda gave up on events, so files have no reply until somebody sends them again. Runbook docs/runbooks/slack-files-dead-letters.md',
      namespace: 'AWS/SQS',
      metricName: 'ApproximateNumberOfMessagesVisible',
      dimensions: [
        {
          name: 'QueueName',
          value: props.slackFilesFailuresQueueName!,
        },
      ],
      statistic: 'Maximum',
      period: 300,
      evaluationPeriods: 1,
      comparisonOperator: 'GreaterThanOrEqualToThreshold',
      threshold: 1,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const slackFilesLogGroup = new logs.CfnLogGroup(this, 'SlackFilesLogGroup', {
      logGroupName: `/aws/lambda/slack-files${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const slackFilesRole = new iam.CfnRole(this, 'SlackFilesRole', {
      assumeRolePolicyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Effect: 'Allow',
            Principal: {
              Service: 'lambda.amazonaws.com',
            },
            Action: 'sts:AssumeRole',
          },
        ],
      },
      policies: [
        {
          policyName: 'slack-files',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Records',
                Effect: 'Allow',
                Action: [
                  'dynamodb:DescribeTable',
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.processedEventsTableArn!,
              },
              {
                Sid: 'Secrets',
                Effect: 'Allow',
                Action: 'ssm:GetParameters',
                Resource: `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.slackBotTokenParameter!}`,
              },
              {
                Sid: 'Failures',
                Effect: 'Allow',
                Action: 'sqs:SendMessage',
                Resource: props.slackFilesFailuresArn!,
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: slackFilesLogGroup.attrArn,
              },
              {
                Sid: 'Traces',
                Effect: 'Allow',
                Action: [
                  'xray:PutTraceSegments',
                  'xray:PutTelemetryRecords',
                ],
                Resource: '*',
              },
            ],
          },
        },
      ],
    });

    const slackFilesFunction = new lambda.CfnFunction(this, 'SlackFilesFunction', {
      functionName: `slack-files${props.suffix!}`,
      description: 'Replies once to each file of a Slack message',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 60,
      role: slackFilesRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.slackFilesCodeKey!,
      },
      loggingConfig: {
        logGroup: slackFilesLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'DEDUP_TABLE_NAME': props.processedEventsTableRef!,
          'DEDUP_FALLBACK': props.dedupFallback!,
          'SAME_CONTENT_CHANNELS': props.slackSameContentChannels!,
          'SAME_CONTENT_HOURS': `${props.slackSameContentHours!}`,
          'SLACK_API_URL': props.slackApiUrl!,
          'SLACK_BOT_TOKEN_PARAMETER': props.slackBotTokenParameter!,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const slackFilesErrorsAlarm = new cloudwatch.CfnAlarm(this, 'SlackFilesErrorsAlarm', {
      alarmName: `slack-files-errors${props.suffix!}`,
      alarmDescription: 'Replies to files keep failing; after three attempts they become dead letters. Runbook docs/runbooks/slack-files-errors.md',
      namespace: 'AWS/Lambda',
      metricName: 'Errors',
      dimensions: [
        {
          name: 'FunctionName',
          value: slackFilesFunction.ref,
        },
        {
          name: 'Resource',
          value: `${slackFilesFunction.ref}:live`,
        },
      ],
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 3,
      datapointsToAlarm: 2,
      comparisonOperator: 'GreaterThanOrEqualToThreshold',
      threshold: 5,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const slackFilesVersion = new lambda.CfnVersion(this, 'SlackFilesVersion', {
      functionName: slackFilesFunction.ref,
      description: 'Published when the function was created',
    });
    slackFilesVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const slackFilesAlias = new lambda.CfnAlias(this, 'SlackFilesAlias', {
      name: 'live',
      functionName: slackFilesFunction.ref,
      functionVersion: slackFilesVersion.attrVersion,
    });

    const slackEventsRole = new iam.CfnRole(this, 'SlackEventsRole', {
      assumeRolePolicyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Effect: 'Allow',
            Principal: {
              Service: 'lambda.amazonaws.com',
            },
            Action: 'sts:AssumeRole',
          },
        ],
      },
      policies: [
        {
          policyName: 'slack-events',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Records',
                Effect: 'Allow',
                Action: [
                  'dynamodb:DescribeTable',
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.processedEventsTableArn!,
              },
              {
                Sid: 'HandOver',
                Effect: 'Allow',
                Action: 'lambda:InvokeFunction',
                Resource: slackFilesAlias.ref,
              },
              {
                Sid: 'Secrets',
                Effect: 'Allow',
                Action: 'ssm:GetParameters',
                Resource: `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.slackSigningSecretParameter!}`,
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: slackEventsLogGroup.attrArn,
              },
              {
                Sid: 'Traces',
                Effect: 'Allow',
                Action: [
                  'xray:PutTraceSegments',
                  'xray:PutTelemetryRecords',
                ],
                Resource: '*',
              },
            ],
          },
        },
      ],
    });

    const slackFilesInvokeConfig = new lambda.CfnEventInvokeConfig(this, 'SlackFilesInvokeConfig', {
      functionName: slackFilesFunction.ref,
      qualifier: 'live',
      maximumRetryAttempts: 2,
      maximumEventAgeInSeconds: 7200,
      destinationConfig: {
        onFailure: {
          destination: props.slackFilesFailuresArn!,
        },
      },
    });
    slackFilesInvokeConfig.addResourceDependency(slackFilesAlias);

    const slackEventsFunction = new lambda.CfnFunction(this, 'SlackEventsFunction', {
      functionName: `slack-events${props.suffix!}`,
      description: 'Accepts Slack events, each once, and hands their files over',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 3,
      role: slackEventsRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.slackEventsCodeKey!,
      },
      loggingConfig: {
        logGroup: slackEventsLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'DEDUP_TABLE_NAME': props.processedEventsTableRef!,
          'DEDUP_FALLBACK': props.dedupFallback!,
          'SLACK_FILES_FUNCTION': slackFilesAlias.ref,
          'SLACK_BOT_ID': props.slackBotId!,
          'SLACK_BOT_USER_ID': props.slackBotUserId!,
          'SLACK_SIGNING_SECRET_PARAMETER': props.slackSigningSecretParameter!,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const slackEventsErrorsAlarm = new cloudwatch.CfnAlarm(this, 'SlackEventsErrorsAlarm', {
      alarmName: `slack-events-errors${props.suffix!}`,
      alarmDescription: 'slack-events keeps failing, so Slack gets errors and repeats its events. Runbook docs/runbooks/slack-events-errors.md',
      namespace: 'AWS/Lambda',
      metricName: 'Errors',
      dimensions: [
        {
          name: 'FunctionName',
          value: slackEventsFunction.ref,
        },
        {
          name: 'Resource',
          value: `${slackEventsFunction.ref}:live`,
        },
      ],
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 3,
      datapointsToAlarm: 2,
      comparisonOperator: 'GreaterThanOrEqualToThreshold',
      threshold: 3,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const slackEventsVersion = new lambda.CfnVersion(this, 'SlackEventsVersion', {
      functionName: slackEventsFunction.ref,
      description: 'Published when the function was created',
    });
    slackEventsVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const slackFallbackAlarm = new cloudwatch.CfnAlarm(this, 'SlackFallbackAlarm', {
      alarmName: `slack-fallback-active${props.suffix!}`,
      alarmDescription: 'The table of processed events cannot be reached, so events may be handled once per instance instead of once. Runbook docs/runbooks/slack-fallback-active.md',
      namespace: 'Ichido',
      metricName: 'FallbackAdmissions',
      dimensions: [
        {
          name: 'FunctionName',
          value: slackEventsFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 60,
      evaluationPeriods: 5,
      datapointsToAlarm: 2,
      comparisonOperator: 'GreaterThanOrEqualToThreshold',
      threshold: 1,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const slackEventsAlias = new lambda.CfnAlias(this, 'SlackEventsAlias', {
      name: 'live',
      functionName: slackEventsFunction.ref,
      functionVersion: slackEventsVersion.attrVersion,
    });

    const slackEventsIntegration = new apigatewayv2.CfnIntegration(this, 'SlackEventsIntegration', {
      apiId: props.httpApiId!,
      integrationType: 'AWS_PROXY',
      integrationUri: slackEventsAlias.ref,
      payloadFormatVersion: '2.0',
      timeoutInMillis: 3500,
    });

    const slackEventsPermission = new lambda.CfnPermission(this, 'SlackEventsPermission', {
      action: 'lambda:InvokeFunction',
      functionName: slackEventsAlias.ref,
      principal: 'apigateway.amazonaws.com',
      sourceArn: `arn:${cdk.Stack.of(this).partition}:execute-api:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:${props.httpApiId!}/*/POST/slack/events`,
    });

    const slackEventsRoute = new apigatewayv2.CfnRoute(this, 'SlackEventsRoute', {
      apiId: props.httpApiId!,
      routeKey: 'POST /slack/events',
      authorizationType: 'NONE',
      target: `integrations/${slackEventsIntegration.ref}`,
    });

    // Outputs
    this.slackRequestUrlPath = '/slack/events';
    new cdk.CfnOutput(this, 'CfnOutputSlackRequestUrlPath', {
      key: 'SlackRequestUrlPath',
      description: 'The path after the address of the HTTP API in Slack\'s Request URL',
      value: this.slackRequestUrlPath!.toString(),
    });
  }
}
