// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as budgets from 'aws-cdk-lib/aws-budgets';
import * as cloudfront from 'aws-cdk-lib/aws-cloudfront';
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
   * The end of every name; empty in prod, -ENVIRONMENT elsewhere
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
   * Requests per second that the route for Slack's events lets through on average; Slack repeats what is refused
   * @default 50
   */
  readonly slackRequestsPerSecond?: number;
  /**
   * How many requests it lets through at once
   * @default 100
   */
  readonly slackRequestBurst?: number;
  /**
   * Requests per second that the route for transfers lets through on average; a refused transfer has moved no money
   * @default 50
   */
  readonly transferRequestsPerSecond?: number;
  /**
   * How many requests it lets through at once
   * @default 100
   */
  readonly transferRequestBurst?: number;
  /**
   * Requests per second that each route for balances and histories lets through on average
   * @default 100
   */
  readonly readRequestsPerSecond?: number;
  /**
   * How many requests it lets through at once
   * @default 200
   */
  readonly readRequestBurst?: number;
  /**
   * Requests per second that every other route lets through on average - new accounts, operators, paths that do not exist
   * @default 10
   */
  readonly otherRequestsPerSecond?: number;
  /**
   * How many requests it lets through at once
   * @default 20
   */
  readonly otherRequestBurst?: number;
  /**
   * Whether CloudFront is in front of the HTTP API and limits each address; make cost says what it costs
   * @default 'off'
   */
  readonly edge?: string;
  /**
   * The web ACL with the limit, which infra/edge/web-acl.yaml makes in us-east-1
   * @default ''
   */
  readonly edgeWebAclArn?: string;
  /**
   * Whether the HTTP API also answers at its own address, where no limit per address holds
   * @default 'open'
   */
  readonly directAddress?: string;
  /**
   * Whether there are budgets; off where nothing costs anything
   * @default 'off'
   */
  readonly budgets?: string;
  /**
   * What everything of this environment may cost per month
   * @default 10
   */
  readonly budgetUsd?: number;
  /**
   * What the feeds may cost per month
   * @default 1
   */
  readonly feedsBudgetUsd?: number;
  /**
   * The id of the mesh's API (mesh.yaml)
   * @default 'local'
   */
  readonly meshApiId?: string;
  /**
   * The end of the dashboard's list of alarms, if there are further feeds
   * @default ''
   */
  readonly furtherFeedsAlarm?: string;
}

/**
 * The HTTP API, the alarm topic, the budgets and the dashboard of an environment
 */
export class Shared extends Construct {
  /**
   * The HTTP API, or what is in front of it
   */
  public readonly httpApiUrl;
  /**
   * The id of the HTTP API
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
      slackRequestsPerSecond: props.slackRequestsPerSecond ?? 50,
      slackRequestBurst: props.slackRequestBurst ?? 100,
      transferRequestsPerSecond: props.transferRequestsPerSecond ?? 50,
      transferRequestBurst: props.transferRequestBurst ?? 100,
      readRequestsPerSecond: props.readRequestsPerSecond ?? 100,
      readRequestBurst: props.readRequestBurst ?? 200,
      otherRequestsPerSecond: props.otherRequestsPerSecond ?? 10,
      otherRequestBurst: props.otherRequestBurst ?? 20,
      edge: props.edge ?? 'off',
      edgeWebAclArn: props.edgeWebAclArn ?? '',
      directAddress: props.directAddress ?? 'open',
      budgets: props.budgets ?? 'off',
      budgetUsd: props.budgetUsd ?? 10,
      feedsBudgetUsd: props.feedsBudgetUsd ?? 1,
      meshApiId: props.meshApiId ?? 'local',
      furtherFeedsAlarm: props.furtherFeedsAlarm ?? '',
    };

    // Conditions
    const budgetsAreOn = props.budgets! === 'on';
    const directAddressIsClosed = props.directAddress! === 'closed';
    const edgeIsOn = props.edge! === 'on';
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
      description: 'The HTTP API',
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
        {"type": "alarm", "x": 0, "y": 0, "width": 24, "height": 4, "properties": {
          "title": "Alarms: docs/runbooks has their pages", "alarms": [
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:http-api-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:slack-events-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:slack-files-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:slack-files-dead-letters${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:slack-fallback-active${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:github-feed-subscriber-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:github-feed-subscriber-duration${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:github-feed-silence${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:github-notifier-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:hatebu-feed-subscriber-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:hatebu-feed-subscriber-duration${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:hatebu-feed-silence${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:hatebu-notifier-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:tokens-api-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:tokens-api-latency${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:tokens-unresolved${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:tokens-conflicts${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:mesh-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:mesh-latency${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:mesh-resolver-errors${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:mesh-resolver-throttles${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:mesh-unavailable${props.suffix!}",
            "arn:${cdk.Stack.of(this).partition}:cloudwatch:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:alarm:mesh-api-key${props.suffix!}"${props.furtherFeedsAlarm!}
          ]}},
        {"type": "metric", "x": 0, "y": 4, "width": 12, "height": 6, "properties": {
          "title": "HTTP API: requests and errors", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/ApiGateway", "Count", "ApiId", "${httpApi.ref}", {"stat": "Sum"}],
            ["AWS/ApiGateway", "4xx", "ApiId", "${httpApi.ref}", {"stat": "Sum"}],
            ["AWS/ApiGateway", "5xx", "ApiId", "${httpApi.ref}", {"stat": "Sum"}]
          ]}},
        {"type": "metric", "x": 12, "y": 4, "width": 12, "height": 6, "properties": {
          "title": "HTTP API: latency", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/ApiGateway", "Latency", "ApiId", "${httpApi.ref}", {"stat": "p50"}],
            ["AWS/ApiGateway", "Latency", "ApiId", "${httpApi.ref}", {"stat": "p95"}]
          ]}},
        {"type": "text", "x": 0, "y": 10, "width": 24, "height": 1, "properties": {"markdown": "## Once: how many duplicates, and does the store answer?"}},
        {"type": "log", "x": 0, "y": 11, "width": 8, "height": 6, "properties": {
          "title": "Duplicates, in percent of all keys", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries",
          "query": "SOURCE '/aws/lambda/slack-events${props.suffix!}' | SOURCE '/aws/lambda/slack-files${props.suffix!}' | SOURCE '/aws/lambda/github-notifier${props.suffix!}' | SOURCE '/aws/lambda/hatebu-notifier${props.suffix!}' | SOURCE '/aws/lambda/feeds-notifier${props.suffix!}' | filter ispresent(NewKeys) or ispresent(Duplicates) | stats 100 * sum(coalesce(Duplicates, 0)) / (sum(coalesce(Duplicates, 0)) + sum(coalesce(NewKeys, 0))) as duplicates by bin(5m)"}},
        {"type": "log", "x": 8, "y": 11, "width": 8, "height": 6, "properties": {
          "title": "Store: failed calls, in percent", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries",
          "query": "SOURCE '/aws/lambda/slack-events${props.suffix!}' | SOURCE '/aws/lambda/slack-files${props.suffix!}' | SOURCE '/aws/lambda/github-notifier${props.suffix!}' | SOURCE '/aws/lambda/hatebu-notifier${props.suffix!}' | SOURCE '/aws/lambda/feeds-notifier${props.suffix!}' | filter ispresent(StoreCalls) | stats 100 * sum(coalesce(StoreErrors, 0)) / sum(StoreCalls) as failed by bin(5m)"}},
        {"type": "log", "x": 16, "y": 11, "width": 8, "height": 6, "properties": {
          "title": "Store: latency in milliseconds", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries",
          "query": "SOURCE '/aws/lambda/slack-events${props.suffix!}' | SOURCE '/aws/lambda/slack-files${props.suffix!}' | SOURCE '/aws/lambda/github-notifier${props.suffix!}' | SOURCE '/aws/lambda/hatebu-notifier${props.suffix!}' | SOURCE '/aws/lambda/feeds-notifier${props.suffix!}' | filter ispresent(dynamodbLatency) | stats pct(dynamodbLatency, 50) as p50, pct(dynamodbLatency, 95) as p95 by bin(5m)"}},
        {"type": "text", "x": 0, "y": 17, "width": 24, "height": 1, "properties": {"markdown": "## Slack: is every file answered once?"}},
        {"type": "log", "x": 0, "y": 18, "width": 8, "height": 6, "properties": {
          "title": "Events handed over, repeats by Slack, replies", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries",
          "query": "SOURCE '/aws/lambda/slack-events${props.suffix!}' | SOURCE '/aws/lambda/slack-files${props.suffix!}' | filter ispresent(FunctionName) | stats sum(coalesce(SlackHandOvers, 0)) as handedOver, sum(coalesce(SlackRetries, 0)) as repeats, sum(coalesce(SlackReplies, 0)) as replies by bin(5m)"}},
        {"type": "metric", "x": 8, "y": 18, "width": 8, "height": 6, "properties": {
          "title": "Errors, admissions without the store, dead letters", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/Lambda", "Errors", "FunctionName", "slack-events${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Errors", "FunctionName", "slack-files${props.suffix!}", {"stat": "Sum"}],
            ["Ichido", "FallbackAdmissions", "FunctionName", "slack-events${props.suffix!}", {"stat": "Sum"}],
            ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "slack-files-failures${props.suffix!}", {"stat": "Maximum", "yAxis": "right"}]
          ]}},
        {"type": "metric", "x": 16, "y": 18, "width": 8, "height": 6, "properties": {
          "title": "Duration of slack-events (Slack waits 3 s)", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/Lambda", "Duration", "FunctionName", "slack-events${props.suffix!}", {"stat": "p50"}],
            ["AWS/Lambda", "Duration", "FunctionName", "slack-events${props.suffix!}", {"stat": "p95"}]
          ]}},
        {"type": "text", "x": 0, "y": 24, "width": 24, "height": 1, "properties": {"markdown": "## Feeds: is every entry delivered?"}},
        {"type": "log", "x": 0, "y": 25, "width": 8, "height": 6, "properties": {
          "title": "Deliveries made, failed, given up", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries",
          "query": "SOURCE '/aws/lambda/github-notifier${props.suffix!}' | SOURCE '/aws/lambda/hatebu-notifier${props.suffix!}' | SOURCE '/aws/lambda/feeds-notifier${props.suffix!}' | SOURCE '/aws/lambda/github-subscriber${props.suffix!}' | SOURCE '/aws/lambda/hatebu-subscriber${props.suffix!}' | SOURCE '/aws/lambda/feeds-subscriber${props.suffix!}' | filter ispresent(FunctionName) | stats sum(coalesce(Deliveries, 0)) as made, sum(coalesce(DeliveryFailures, 0)) as failed, sum(coalesce(DeadLetters, 0)) as givenUp by bin(15m)"}},
        {"type": "log", "x": 8, "y": 25, "width": 8, "height": 6, "properties": {
          "title": "Entries owed at the end of a run", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries",
          "query": "SOURCE '/aws/lambda/github-subscriber${props.suffix!}' | SOURCE '/aws/lambda/hatebu-subscriber${props.suffix!}' | SOURCE '/aws/lambda/feeds-subscriber${props.suffix!}' | filter ispresent(owed) and ispresent(feed) | stats max(owed) as owed by bin(15m)"}},
        {"type": "metric", "x": 16, "y": 25, "width": 8, "height": 6, "properties": {
          "title": "Runs: errors, duration", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/Lambda", "Errors", "FunctionName", "github-subscriber${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Errors", "FunctionName", "hatebu-subscriber${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Errors", "FunctionName", "feeds-subscriber${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Errors", "FunctionName", "github-notifier${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Errors", "FunctionName", "hatebu-notifier${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Errors", "FunctionName", "feeds-notifier${props.suffix!}", {"stat": "Sum"}],
            ["AWS/Lambda", "Duration", "FunctionName", "github-subscriber${props.suffix!}", {"stat": "Average", "yAxis": "right"}],
            ["AWS/Lambda", "Duration", "FunctionName", "hatebu-subscriber${props.suffix!}", {"stat": "Average", "yAxis": "right"}],
            ["AWS/Lambda", "Duration", "FunctionName", "feeds-subscriber${props.suffix!}", {"stat": "Average", "yAxis": "right"}]
          ]}},
        {"type": "text", "x": 0, "y": 31, "width": 24, "height": 1, "properties": {"markdown": "## Tokens: does money move once?"}},
        {"type": "log", "x": 0, "y": 32, "width": 8, "height": 6, "properties": {
          "title": "Transfers made, replayed, refused", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries",
          "query": "SOURCE '/aws/lambda/tokens-api${props.suffix!}' | filter ispresent(FunctionName) | stats sum(coalesce(Transfers, 0)) as made, sum(coalesce(TransferReplays, 0)) as replayed, sum(coalesce(TransferRefusals, 0)) as refused by bin(5m)"}},
        {"type": "metric", "x": 8, "y": 32, "width": 8, "height": 6, "properties": {
          "title": "Failures", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/Lambda", "Errors", "FunctionName", "tokens-api${props.suffix!}", {"stat": "Sum"}],
            ["Ichido", "Failures", "FunctionName", "tokens-api${props.suffix!}", {"stat": "Sum"}],
            ["Ichido", "TransfersUnresolved", "FunctionName", "tokens-api${props.suffix!}", {"stat": "Sum"}],
            ["Ichido", "TransferConflicts", "FunctionName", "tokens-api${props.suffix!}", {"stat": "Sum"}]
          ]}},
        {"type": "metric", "x": 16, "y": 32, "width": 8, "height": 6, "properties": {
          "title": "Duration of a request", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/Lambda", "Duration", "FunctionName", "tokens-api${props.suffix!}", {"stat": "p50"}],
            ["AWS/Lambda", "Duration", "FunctionName", "tokens-api${props.suffix!}", {"stat": "p95"}]
          ]}},
        {"type": "text", "x": 0, "y": 38, "width": 24, "height": 1, "properties": {"markdown": "## Mesh: do messages arrive?"}},
        {"type": "metric", "x": 0, "y": 39, "width": 8, "height": 6, "properties": {
          "title": "Requests and errors", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/AppSync", "Latency", "GraphQLAPIId", "${props.meshApiId!}", {"stat": "SampleCount", "label": "Requests"}],
            ["AWS/AppSync", "4XXError", "GraphQLAPIId", "${props.meshApiId!}", {"stat": "Sum"}],
            ["AWS/AppSync", "5XXError", "GraphQLAPIId", "${props.meshApiId!}", {"stat": "Sum"}]
          ]}},
        {"type": "metric", "x": 8, "y": 39, "width": 8, "height": 6, "properties": {
          "title": "Realtime: connections and subscriptions", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/AppSync", "ActiveConnections", "GraphQLAPIId", "${props.meshApiId!}", {"stat": "Maximum"}],
            ["AWS/AppSync", "ActiveSubscriptions", "GraphQLAPIId", "${props.meshApiId!}", {"stat": "Maximum"}]
          ]}},
        {"type": "metric", "x": 16, "y": 39, "width": 8, "height": 6, "properties": {
          "title": "Latency; mesh-resolver: calls, errors", "region": "${cdk.Stack.of(this).region}", "view": "timeSeries", "period": 300,
          "metrics": [
            ["AWS/AppSync", "Latency", "GraphQLAPIId", "${props.meshApiId!}", {"stat": "p50"}],
            ["AWS/AppSync", "Latency", "GraphQLAPIId", "${props.meshApiId!}", {"stat": "p95"}],
            ["AWS/Lambda", "Invocations", "FunctionName", "mesh-resolver${props.suffix!}", {"stat": "Sum", "yAxis": "right"}],
            ["AWS/Lambda", "Errors", "FunctionName", "mesh-resolver${props.suffix!}", {"stat": "Sum", "yAxis": "right"}]
          ]}}
      ]}
      `,
    });

    const httpApiStage = new apigatewayv2.CfnStage(this, 'HttpApiStage', {
      apiId: httpApi.ref,
      stageName: directAddressIsClosed ? `edge-${alarmKey.ref}` : '$default',
      autoDeploy: true,
      accessLogSettings: {
        destinationArn: httpApiLogGroup.attrArn,
        format: '{\"requestId\":\"$context.requestId\",\"routeKey\":\"$context.routeKey\",\"status\":\"$context.status\",\"latencyMs\":\"$context.responseLatency\",\"integrationError\":\"$context.integrationErrorMessage\"}',
      },
      defaultRouteSettings: {
        throttlingRateLimit: props.otherRequestsPerSecond!,
        throttlingBurstLimit: props.otherRequestBurst!,
      },
      routeSettings: {
        'POST /slack/events': {
          ThrottlingRateLimit: props.slackRequestsPerSecond!,
          ThrottlingBurstLimit: props.slackRequestBurst!,
        },
        'POST /tokens/transfer': {
          ThrottlingRateLimit: props.transferRequestsPerSecond!,
          ThrottlingBurstLimit: props.transferRequestBurst!,
        },
        'GET /tokens/balance/{did}': {
          ThrottlingRateLimit: props.readRequestsPerSecond!,
          ThrottlingBurstLimit: props.readRequestBurst!,
        },
        'GET /tokens/transactions/{did}': {
          ThrottlingRateLimit: props.readRequestsPerSecond!,
          ThrottlingBurstLimit: props.readRequestBurst!,
        },
        'GET /tokens/transactions/received/{did}': {
          ThrottlingRateLimit: props.readRequestsPerSecond!,
          ThrottlingBurstLimit: props.readRequestBurst!,
        },
        'GET /tokens/statement/{did}': {
          ThrottlingRateLimit: props.readRequestsPerSecond!,
          ThrottlingBurstLimit: props.readRequestBurst!,
        },
        'POST /tokens/accounts': {
          ThrottlingRateLimit: props.otherRequestsPerSecond!,
          ThrottlingBurstLimit: props.otherRequestBurst!,
        },
        'POST /tokens/accounts/{did}/freeze': {
          ThrottlingRateLimit: props.otherRequestsPerSecond!,
          ThrottlingBurstLimit: props.otherRequestBurst!,
        },
        'POST /tokens/accounts/{did}/unfreeze': {
          ThrottlingRateLimit: props.otherRequestsPerSecond!,
          ThrottlingBurstLimit: props.otherRequestBurst!,
        },
        'POST /tokens/reversals': {
          ThrottlingRateLimit: props.otherRequestsPerSecond!,
          ThrottlingBurstLimit: props.otherRequestBurst!,
        },
        'GET /tokens/openapi.json': {
          ThrottlingRateLimit: props.otherRequestsPerSecond!,
          ThrottlingBurstLimit: props.otherRequestBurst!,
        },
        'ANY /tokens/{proxy+}': {
          ThrottlingRateLimit: props.otherRequestsPerSecond!,
          ThrottlingBurstLimit: props.otherRequestBurst!,
        },
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

    const edgeDistribution = edgeIsOn
      ? new cloudfront.CfnDistribution(this, 'EdgeDistribution', {
          distributionConfig: {
            comment: `ichido${props.suffix!}`,
            enabled: true,
            httpVersion: 'http2',
            ipv6Enabled: false,
            webAclId: props.edgeWebAclArn!,
            origins: [
              {
                id: 'http-api',
                domainName: `${httpApi.ref}.execute-api.${cdk.Stack.of(this).region}.${cdk.Stack.of(this).urlSuffix}`,
                originPath: directAddressIsClosed ? `/${httpApiStage.ref}` : '',
                customOriginConfig: {
                  originProtocolPolicy: 'https-only',
                  originSslProtocols: [
                    'TLSv1.2',
                  ],
                },
              },
            ],
            defaultCacheBehavior: {
              targetOriginId: 'http-api',
              viewerProtocolPolicy: 'https-only',
              allowedMethods: [
                'GET',
                'HEAD',
                'OPTIONS',
                'PUT',
                'POST',
                'PATCH',
                'DELETE',
              ],
              cachePolicyId: '4135ea2d-6df8-44a3-9df3-4b5a84be39ad',
              originRequestPolicyId: 'b689b0a8-53d0-40ab-baf2-68738e2966ac',
            },
            customErrorResponses: [
              {
                errorCode: 404,
                errorCachingMinTtl: 0,
              },
              {
                errorCode: 405,
                errorCachingMinTtl: 0,
              },
              {
                errorCode: 414,
                errorCachingMinTtl: 0,
              },
              {
                errorCode: 500,
                errorCachingMinTtl: 0,
              },
              {
                errorCode: 501,
                errorCachingMinTtl: 0,
              },
              {
                errorCode: 502,
                errorCachingMinTtl: 0,
              },
              {
                errorCode: 503,
                errorCachingMinTtl: 0,
              },
              {
                errorCode: 504,
                errorCachingMinTtl: 0,
              },
            ],
          },
        })
      : undefined;
    if (edgeDistribution != null) {
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
      alarmDescription: 'The HTTP API keeps answering with 5xx. Runbook docs/runbooks/http-api-errors.md',
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
    this.httpApiUrl = edgeIsOn ? `https://${edgeDistribution?.attrDomainName}` : httpApi.attrApiEndpoint;
    new cdk.CfnOutput(this, 'CfnOutputHttpApiUrl', {
      key: 'HttpApiUrl',
      description: 'The HTTP API, or what is in front of it',
      value: this.httpApiUrl!.toString(),
    });
    this.httpApiId = httpApi.ref;
    new cdk.CfnOutput(this, 'CfnOutputHttpApiId', {
      key: 'HttpApiId',
      description: 'The id of the HTTP API',
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
