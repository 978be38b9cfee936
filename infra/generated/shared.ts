// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as budgets from 'aws-cdk-lib/aws-budgets';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as sns from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';

export interface SharedProps {
  /**
   * The environment
   * @default 'local'
   */
  readonly environment?: string;
  /**
   * Ends every name; empty in prod, -ENVIRONMENT elsewhere
   * @default ''
   */
  readonly suffix?: string;
  /**
   * How long log lines are kept
   * @default 30
   */
  readonly logRetentionDays?: number;
  /**
   * Whether anybody is told of alarms
   * @default 'off'
   */
  readonly alarmSubscription?: string;
  /**
   * How they are told (email, https, sqs)
   * @default 'email'
   */
  readonly alarmProtocol?: string;
  /**
   * Who is told; an address confirms its subscription once
   * @default 'nobody@example.com'
   */
  readonly alarmEndpoint?: string;
  /**
   * What the front door lets through on average, over all routes of one kind
   * @default 50
   */
  readonly requestsPerSecond?: number;
  /**
   * What it lets through at once
   * @default 100
   */
  readonly requestBurst?: number;
  /**
   * Whether there are budgets; off where nothing costs anything
   * @default 'off'
   */
  readonly budgets?: string;
  /**
   * What everything of this environment may cost a month
   * @default 10
   */
  readonly budgetUsd?: number;
  /**
   * What the feeds may cost a month (seed 2)
   * @default 1
   */
  readonly feedsBudgetUsd?: number;
}

/**
 * The front door, alarms, budgets and the dashboard of an environment
 */
export class Shared extends Construct {
  /**
   * The front door
   */
  public readonly httpApiUrl;
  /**
   * The id of the front door
   */
  public readonly httpApiId;
  /**
   * Where alarms go
   */
  public readonly alarmTopicArn;

  public constructor(scope: Construct, id: string, props: SharedProps = {}) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      environment: props.environment ?? 'local',
      suffix: props.suffix ?? '',
      logRetentionDays: props.logRetentionDays ?? 30,
      alarmSubscription: props.alarmSubscription ?? 'off',
      alarmProtocol: props.alarmProtocol ?? 'email',
      alarmEndpoint: props.alarmEndpoint ?? 'nobody@example.com',
      requestsPerSecond: props.requestsPerSecond ?? 50,
      requestBurst: props.requestBurst ?? 100,
      budgets: props.budgets ?? 'off',
      budgetUsd: props.budgetUsd ?? 10,
      feedsBudgetUsd: props.feedsBudgetUsd ?? 1,
    };

    // Conditions
    const budgetsAreOn = props.budgets! === 'on';
    const subscriptionIsOn = props.alarmSubscription! === 'on';

    // Resources
    const alarmKey = new kms.CfnKey(this, 'AlarmKey', {
      description: `ichido alarms ${props.environment!}`,
      enableKeyRotation: true,
      pendingWindowInDays: 7,
      keyPolicy: {
        Version: '2012-10-17',
        Statement: [
          {
            Sid: 'Account',
            Effect: 'Allow',
            Principal: {
              AWS: `arn:${cdk.Stack.of(this).partition}:iam::${cdk.Stack.of(this).account}:root`,
            },
            Action: 'kms:*',
            Resource: '*',
          },
          {
            Sid: 'Publishers',
            Effect: 'Allow',
            Principal: {
              Service: [
                'cloudwatch.amazonaws.com',
                'budgets.amazonaws.com',
              ],
            },
            Action: [
              'kms:Decrypt',
              'kms:GenerateDataKey',
            ],
            Resource: '*',
            Condition: {
              StringEquals: {
                'aws:SourceAccount': cdk.Stack.of(this).account,
              },
            },
          },
        ],
      },
    });

    const httpApi = new apigatewayv2.CfnApi(this, 'HttpApi', {
      name: `ichido${props.suffix!}`,
      description: 'The front door',
      protocolType: 'HTTP',
    });

    const httpApiLogGroup = new logs.CfnLogGroup(this, 'HttpApiLogGroup', {
      logGroupName: `/aws/apigateway/ichido${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const alarmTopic = new sns.CfnTopic(this, 'AlarmTopic', {
      topicName: `ichido-alarms${props.suffix!}`,
      displayName: `ichido ${props.environment!}`,
      kmsMasterKeyId: alarmKey.ref,
    });

    const dashboard = new cloudwatch.CfnDashboard(this, 'Dashboard', {
      dashboardName: `ichido${props.suffix!}`,
      dashboardBody: `{"widgets": [
        {"type": "metric", "x": 0, "y": 0, "width": 12, "height": 6, "properties": {
          "title": "The front door", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "stat": "Sum", "period": 300,
          "metrics": [
            ["AWS/ApiGateway", "Count", "ApiId", "${httpApi.ref}"],
            ["AWS/ApiGateway", "4xx", "ApiId", "${httpApi.ref}"],
            ["AWS/ApiGateway", "5xx", "ApiId", "${httpApi.ref}"]
          ]}},
        {"type": "metric", "x": 12, "y": 0, "width": 12, "height": 6, "properties": {
          "title": "Slack: errors and how long the door takes", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/Lambda", "Errors", "FunctionName", "slack-events${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Errors", "FunctionName", "slack-files${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Duration", "FunctionName", "slack-events${props.suffix!}", {"stat": "p95", "yAxis": "right"}]
          ]}}
      ]}
      `,
    });

    const httpApiStage = new apigatewayv2.CfnStage(this, 'HttpApiStage', {
      apiId: httpApi.ref,
      stageName: '$default',
      autoDeploy: true,
      accessLogSettings: {
        destinationArn: httpApiLogGroup.attrArn,
        format: '{\"requestId\":\"$context.requestId\",\"routeKey\":\"$context.routeKey\",\"status\":\"$context.status\",\"latencyMs\":\"$context.responseLatency\",\"integrationError\":\"$context.integrationErrorMessage\"}',
      },
      defaultRouteSettings: {
        throttlingRateLimit: props.requestsPerSecond!,
        throttlingBurstLimit: props.requestBurst!,
      },
    });

    const alarmTopicPolicy = new sns.CfnTopicPolicy(this, 'AlarmTopicPolicy', {
      topics: [
        alarmTopic.ref,
      ],
      policyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Sid: 'Publishers',
            Effect: 'Allow',
            Principal: {
              Service: [
                'cloudwatch.amazonaws.com',
                'budgets.amazonaws.com',
              ],
            },
            Action: 'sns:Publish',
            Resource: alarmTopic.ref,
            Condition: {
              StringEquals: {
                'aws:SourceAccount': cdk.Stack.of(this).account,
              },
            },
          },
          {
            Sid: 'TlsOnly',
            Effect: 'Deny',
            Principal: '*',
            Action: 'sns:Publish',
            Resource: alarmTopic.ref,
            Condition: {
              Bool: {
                'aws:SecureTransport': 'false',
              },
            },
          },
        ],
      },
    });

    const alarmTopicSubscription = subscriptionIsOn
      ? new sns.CfnSubscription(this, 'AlarmTopicSubscription', {
          topicArn: alarmTopic.ref,
          protocol: props.alarmProtocol!,
          endpoint: props.alarmEndpoint!,
        })
      : undefined;
    if (alarmTopicSubscription != null) {
    }

    const environmentBudget = budgetsAreOn
      ? new budgets.CfnBudget(this, 'EnvironmentBudget', {
          budget: {
            budgetName: `ichido-${props.environment!}`,
            budgetType: 'COST',
            timeUnit: 'MONTHLY',
            budgetLimit: {
              amount: props.budgetUsd!,
              unit: 'USD',
            },
            costFilters: {
              TagKeyValue: [
                `user:Environment$${props.environment!}`,
              ],
            },
          },
          notificationsWithSubscribers: [
            {
              notification: {
                notificationType: 'ACTUAL',
                comparisonOperator: 'GREATER_THAN',
                threshold: 80,
                thresholdType: 'PERCENTAGE',
              },
              subscribers: [
                {
                  subscriptionType: 'SNS',
                  address: alarmTopic.ref,
                },
              ],
            },
            {
              notification: {
                notificationType: 'FORECASTED',
                comparisonOperator: 'GREATER_THAN',
                threshold: 100,
                thresholdType: 'PERCENTAGE',
              },
              subscribers: [
                {
                  subscriptionType: 'SNS',
                  address: alarmTopic.ref,
                },
              ],
            },
          ],
        })
      : undefined;
    if (environmentBudget != null) {
    }

    const feedsBudget = budgetsAreOn
      ? new budgets.CfnBudget(this, 'FeedsBudget', {
          budget: {
            budgetName: `ichido-feeds-${props.environment!}`,
            budgetType: 'COST',
            timeUnit: 'MONTHLY',
            budgetLimit: {
              amount: props.feedsBudgetUsd!,
              unit: 'USD',
            },
            costFilters: {
              TagKeyValue: [
                'user:Application$masutaka-feed',
              ],
            },
          },
          notificationsWithSubscribers: [
            {
              notification: {
                notificationType: 'ACTUAL',
                comparisonOperator: 'GREATER_THAN',
                threshold: 80,
                thresholdType: 'PERCENTAGE',
              },
              subscribers: [
                {
                  subscriptionType: 'SNS',
                  address: alarmTopic.ref,
                },
              ],
            },
            {
              notification: {
                notificationType: 'FORECASTED',
                comparisonOperator: 'GREATER_THAN',
                threshold: 100,
                thresholdType: 'PERCENTAGE',
              },
              subscribers: [
                {
                  subscriptionType: 'SNS',
                  address: alarmTopic.ref,
                },
              ],
            },
          ],
        })
      : undefined;
    if (feedsBudget != null) {
    }

    const httpApiErrorsAlarm = new cloudwatch.CfnAlarm(this, 'HttpApiErrorsAlarm', {
      alarmName: `http-api-errors${props.suffix!}`,
      alarmDescription: 'The front door keeps answering 5xx. Runbook docs/runbooks/http-api-errors.md',
      namespace: 'AWS/ApiGateway',
      metricName: '5xx',
      dimensions: [
        {
          name: 'ApiId',
          value: httpApi.ref,
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
        alarmTopic.ref,
      ],
      okActions: [
        alarmTopic.ref,
      ],
    });

    // Outputs
    this.httpApiUrl = httpApi.attrApiEndpoint;
    new cdk.CfnOutput(this, 'CfnOutputHttpApiUrl', {
      key: 'HttpApiUrl',
      description: 'The front door',
      value: this.httpApiUrl!.toString(),
    });
    this.httpApiId = httpApi.ref;
    new cdk.CfnOutput(this, 'CfnOutputHttpApiId', {
      key: 'HttpApiId',
      description: 'The id of the front door',
      value: this.httpApiId!.toString(),
    });
    this.alarmTopicArn = alarmTopic.ref;
    new cdk.CfnOutput(this, 'CfnOutputAlarmTopicArn', {
      key: 'AlarmTopicArn',
      description: 'Where alarms go',
      value: this.alarmTopicArn!.toString(),
    });
  }
}
