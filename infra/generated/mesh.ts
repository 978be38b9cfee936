// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as appsync from 'aws-cdk-lib/aws-appsync';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as scheduler from 'aws-cdk-lib/aws-scheduler';
import * as wafv2 from 'aws-cdk-lib/aws-wafv2';
import * as xray from 'aws-cdk-lib/aws-xray';
import { Construct } from 'constructs';

export interface MeshProps {
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
   * Groups, members, statuses and messages
   * @default 'MeshV2Table'
   */
  readonly meshTableName?: string;
  /**
   * Seconds between heartbeats of a host; a group ends after five missed ones
   * @default 15
   */
  readonly meshHostHeartbeatSeconds?: number;
  /**
   * Seconds between heartbeats of a member; a membership ends after five missed ones
   * @default 15
   */
  readonly meshMemberHeartbeatSeconds?: number;
  /**
   * The longest life of a group
   * @default 10
   */
  readonly meshMaxConnectionTimeMinutes?: number;
  /**
   * How often clients of groups without WebSocket ask for events
   * @default 2
   */
  readonly meshPollingIntervalSeconds?: number;
  /**
   * How long messages are kept for those who missed them
   * @default 120
   */
  readonly meshMessageRetentionSeconds?: number;
  /**
   * When the API key expires, in seconds since the epoch; AppSync allows at most 365 days from now
   * @default 4102444800
   */
  readonly meshApiKeyExpires?: number;
  /**
   * How many living groups one address or identity may have made in a domain; a domain holds 100
   * @default 50
   */
  readonly meshGroupsPerCaller?: number;
  /**
   * How many members of a group may come from one address or identity; a group holds 100
   * @default 80
   */
  readonly meshNodesPerCaller?: number;
  /**
   * Whether everybody with the API key may ask for the schema; tools want it, clients do not
   * @default 'ENABLED'
   */
  readonly meshIntrospection?: string;
  /**
   * Whether AWS WAF refuses addresses that send too many requests; make cost says what it costs
   * @default 'off'
   */
  readonly meshRateRules?: string;
  /**
   * How many requests one address may send in five minutes, with MeshRateRules; a class of 40 that reports once a second sends 12,000
   * @default 60000
   */
  readonly meshRequestsPerFiveMinutes?: number;
  /**
   * Whether a rule says how many requests X-Ray records; off where tracing is off, and on a local AWS, which has no rules
   * @default 'off'
   */
  readonly meshSampling?: string;
  /**
   * The schedule that asks how long the API key lasts
   * @default 'mesh-api-key-schedule'
   */
  readonly meshApiKeyScheduleName?: string;
  /**
   * The schema
   * @default 'schema.graphql'
   */
  readonly meshSchemaFile?: string;
  /**
   * A resolver
   * @default 'resolvers/getEventsSince.js'
   */
  readonly getEventsSinceResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/getMessagesSince.js'
   */
  readonly getMessagesSinceResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/groups.js'
   */
  readonly groupsResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/joinGroup.js'
   */
  readonly joinGroupResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/lambda.js'
   */
  readonly lambdaResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/listNodesInGroup.js'
   */
  readonly listNodesInGroupResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/pass.js'
   */
  readonly passResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/publishEvents.js'
   */
  readonly publishEventsResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/renewHeartbeat.js'
   */
  readonly renewHeartbeatResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/reportDataByNode.js'
   */
  readonly reportDataByNodeResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/sendMemberHeartbeat.js'
   */
  readonly sendMemberHeartbeatResolverFile?: string;
  /**
   * A resolver
   * @default 'resolvers/subscribe.js'
   */
  readonly subscribeResolverFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/checkBounds.js'
   */
  readonly checkBoundsStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/checkFormer.js'
   */
  readonly checkFormerStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/checkGroupExists.js'
   */
  readonly checkGroupExistsStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/checkMessageId.js'
   */
  readonly checkMessageIdStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/checkSecret.js'
   */
  readonly checkSecretStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/checkStanding.js'
   */
  readonly checkStandingStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/declareVoid.js'
   */
  readonly declareVoidStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/extendHost.js'
   */
  readonly extendHostStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/findMember.js'
   */
  readonly findMemberStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/listGroups.js'
   */
  readonly listGroupsStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/listMembers.js'
   */
  readonly listMembersStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/listStatuses.js'
   */
  readonly listStatusesStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/putMember.js'
   */
  readonly putMemberStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/readEvents.js'
   */
  readonly readEventsStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/readGroup.js'
   */
  readonly readGroupStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/readLatest.js'
   */
  readonly readLatestStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/readMembership.js'
   */
  readonly readMembershipStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/readMessages.js'
   */
  readonly readMessagesStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/readStatus.js'
   */
  readonly readStatusStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/seekEvents.js'
   */
  readonly seekEventsStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/takeSequence.js'
   */
  readonly takeSequenceStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/updateNodeTTL.js'
   */
  readonly updateNodeTtlStepFile?: string;
  /**
   * A step of pipelines
   * @default 'functions/writeMessage.js'
   */
  readonly writeMessageStepFile?: string;
  /**
   * The zip in the bucket
   * @default 'mesh-resolver.zip'
   */
  readonly meshResolverCodeKey?: string;
  /**
   * MeshResolverFailuresArn of mesh-data
   */
  readonly meshResolverFailuresArn: string;
  /**
   * MeshTableArn of mesh-data
   */
  readonly meshTableArn: string;
  /**
   * MeshTableRef of mesh-data
   */
  readonly meshTableRef: string;
}

/**
 * Realtime groups of nodes
 */
export class Mesh extends Construct {
  /**
   * The id of the API
   */
  public readonly meshApiId;
  /**
   * Where clients send queries and mutations
   */
  public readonly meshEndpoint;
  /**
   * Where clients subscribe
   */
  public readonly meshRealtimeEndpoint;

  public constructor(scope: Construct, id: string, props: MeshProps) {
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
      meshTableName: props.meshTableName ?? 'MeshV2Table',
      meshHostHeartbeatSeconds: props.meshHostHeartbeatSeconds ?? 15,
      meshMemberHeartbeatSeconds: props.meshMemberHeartbeatSeconds ?? 15,
      meshMaxConnectionTimeMinutes: props.meshMaxConnectionTimeMinutes ?? 10,
      meshPollingIntervalSeconds: props.meshPollingIntervalSeconds ?? 2,
      meshMessageRetentionSeconds: props.meshMessageRetentionSeconds ?? 120,
      meshApiKeyExpires: props.meshApiKeyExpires ?? 4102444800,
      meshGroupsPerCaller: props.meshGroupsPerCaller ?? 50,
      meshNodesPerCaller: props.meshNodesPerCaller ?? 80,
      meshIntrospection: props.meshIntrospection ?? 'ENABLED',
      meshRateRules: props.meshRateRules ?? 'off',
      meshRequestsPerFiveMinutes: props.meshRequestsPerFiveMinutes ?? 60000,
      meshSampling: props.meshSampling ?? 'off',
      meshApiKeyScheduleName: props.meshApiKeyScheduleName ?? 'mesh-api-key-schedule',
      meshSchemaFile: props.meshSchemaFile ?? 'schema.graphql',
      getEventsSinceResolverFile: props.getEventsSinceResolverFile ?? 'resolvers/getEventsSince.js',
      getMessagesSinceResolverFile: props.getMessagesSinceResolverFile ?? 'resolvers/getMessagesSince.js',
      groupsResolverFile: props.groupsResolverFile ?? 'resolvers/groups.js',
      joinGroupResolverFile: props.joinGroupResolverFile ?? 'resolvers/joinGroup.js',
      lambdaResolverFile: props.lambdaResolverFile ?? 'resolvers/lambda.js',
      listNodesInGroupResolverFile: props.listNodesInGroupResolverFile ?? 'resolvers/listNodesInGroup.js',
      passResolverFile: props.passResolverFile ?? 'resolvers/pass.js',
      publishEventsResolverFile: props.publishEventsResolverFile ?? 'resolvers/publishEvents.js',
      renewHeartbeatResolverFile: props.renewHeartbeatResolverFile ?? 'resolvers/renewHeartbeat.js',
      reportDataByNodeResolverFile: props.reportDataByNodeResolverFile ?? 'resolvers/reportDataByNode.js',
      sendMemberHeartbeatResolverFile: props.sendMemberHeartbeatResolverFile ?? 'resolvers/sendMemberHeartbeat.js',
      subscribeResolverFile: props.subscribeResolverFile ?? 'resolvers/subscribe.js',
      checkBoundsStepFile: props.checkBoundsStepFile ?? 'functions/checkBounds.js',
      checkFormerStepFile: props.checkFormerStepFile ?? 'functions/checkFormer.js',
      checkGroupExistsStepFile: props.checkGroupExistsStepFile ?? 'functions/checkGroupExists.js',
      checkMessageIdStepFile: props.checkMessageIdStepFile ?? 'functions/checkMessageId.js',
      checkSecretStepFile: props.checkSecretStepFile ?? 'functions/checkSecret.js',
      checkStandingStepFile: props.checkStandingStepFile ?? 'functions/checkStanding.js',
      declareVoidStepFile: props.declareVoidStepFile ?? 'functions/declareVoid.js',
      extendHostStepFile: props.extendHostStepFile ?? 'functions/extendHost.js',
      findMemberStepFile: props.findMemberStepFile ?? 'functions/findMember.js',
      listGroupsStepFile: props.listGroupsStepFile ?? 'functions/listGroups.js',
      listMembersStepFile: props.listMembersStepFile ?? 'functions/listMembers.js',
      listStatusesStepFile: props.listStatusesStepFile ?? 'functions/listStatuses.js',
      putMemberStepFile: props.putMemberStepFile ?? 'functions/putMember.js',
      readEventsStepFile: props.readEventsStepFile ?? 'functions/readEvents.js',
      readGroupStepFile: props.readGroupStepFile ?? 'functions/readGroup.js',
      readLatestStepFile: props.readLatestStepFile ?? 'functions/readLatest.js',
      readMembershipStepFile: props.readMembershipStepFile ?? 'functions/readMembership.js',
      readMessagesStepFile: props.readMessagesStepFile ?? 'functions/readMessages.js',
      readStatusStepFile: props.readStatusStepFile ?? 'functions/readStatus.js',
      seekEventsStepFile: props.seekEventsStepFile ?? 'functions/seekEvents.js',
      takeSequenceStepFile: props.takeSequenceStepFile ?? 'functions/takeSequence.js',
      updateNodeTtlStepFile: props.updateNodeTtlStepFile ?? 'functions/updateNodeTTL.js',
      writeMessageStepFile: props.writeMessageStepFile ?? 'functions/writeMessage.js',
      meshResolverCodeKey: props.meshResolverCodeKey ?? 'mesh-resolver.zip',
    };

    // Conditions
    const isTraced = props.tracingMode! === 'Active';
    const rateRulesAreOn = props.meshRateRules! === 'on';
    const samplingIsOn = props.meshSampling! === 'on';

    // Resources
    const meshApiKeyAlarm = new cloudwatch.CfnAlarm(this, 'MeshApiKeyAlarm', {
      alarmName: `mesh-api-key${props.suffix!}`,
      alarmDescription: 'The API key of the mesh expires within 30 days. Runbook docs/runbooks/mesh-api-key.md',
      namespace: `Ichido/mesh${props.suffix!}`,
      metricName: 'ApiKeyDaysLeft',
      statistic: 'Maximum',
      period: 86400,
      evaluationPeriods: 1,
      datapointsToAlarm: 1,
      comparisonOperator: 'LessThanThreshold',
      threshold: 30,
      treatMissingData: 'ignore',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const meshApiLogRole = new iam.CfnRole(this, 'MeshApiLogRole', {
      assumeRolePolicyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Effect: 'Allow',
            Principal: {
              Service: 'appsync.amazonaws.com',
            },
            Action: 'sts:AssumeRole',
          },
        ],
      },
      policies: [
        {
          policyName: 'mesh-api-logs',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: `arn:${cdk.Stack.of(this).partition}:logs:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:log-group:/aws/appsync/apis/*`,
              },
            ],
          },
        },
      ],
    });

    const meshResolverLogGroup = new logs.CfnLogGroup(this, 'MeshResolverLogGroup', {
      logGroupName: `/aws/lambda/mesh-resolver${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const meshUnavailableAlarm = new cloudwatch.CfnAlarm(this, 'MeshUnavailableAlarm', {
      alarmName: `mesh-unavailable${props.suffix!}`,
      alarmDescription: 'Requests to the mesh keep failing because its table or its function fails. Runbook docs/runbooks/mesh-unavailable.md',
      namespace: `Ichido/mesh${props.suffix!}`,
      metricName: 'Unavailable',
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 3,
      datapointsToAlarm: 2,
      comparisonOperator: 'GreaterThanOrEqualToThreshold',
      threshold: 10,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const meshWebAcl = rateRulesAreOn
      ? new wafv2.CfnWebACL(this, 'MeshWebAcl', {
          name: `mesh${props.suffix!}`,
          scope: 'REGIONAL',
          defaultAction: {
            allow: {
            },
          },
          visibilityConfig: {
            cloudWatchMetricsEnabled: true,
            sampledRequestsEnabled: false,
            metricName: `mesh${props.suffix!}`,
          },
          rules: [
            {
              name: 'requests-per-address',
              priority: 0,
              action: {
                block: {
                },
              },
              statement: {
                rateBasedStatement: {
                  aggregateKeyType: 'IP',
                  evaluationWindowSec: 300,
                  limit: props.meshRequestsPerFiveMinutes!,
                },
              },
              visibilityConfig: {
                cloudWatchMetricsEnabled: true,
                sampledRequestsEnabled: false,
                metricName: `mesh-requests-per-address${props.suffix!}`,
              },
            },
          ],
        })
      : undefined;
    if (meshWebAcl != null) {
    }

    const meshApi = new appsync.CfnGraphQLApi(this, 'MeshApi', {
      name: `mesh${props.suffix!}`,
      authenticationType: 'API_KEY',
      additionalAuthenticationProviders: [
        {
          authenticationType: 'AWS_IAM',
        },
      ],
      xrayEnabled: isTraced ? true : false,
      logConfig: {
        cloudWatchLogsRoleArn: meshApiLogRole.attrArn,
        fieldLogLevel: 'ERROR',
        excludeVerboseContent: true,
      },
      queryDepthLimit: 20,
      resolverCountLimit: 1,
      introspectionConfig: props.meshIntrospection!,
      environmentVariables: {
        'TABLE_NAME': props.meshTableName!,
        'HOST_HEARTBEAT_SECONDS': `${props.meshHostHeartbeatSeconds!}`,
        'MEMBER_HEARTBEAT_SECONDS': `${props.meshMemberHeartbeatSeconds!}`,
        'POLLING_INTERVAL_SECONDS': `${props.meshPollingIntervalSeconds!}`,
        'MESSAGE_RETENTION_SECONDS': `${props.meshMessageRetentionSeconds!}`,
        'MESH_MAX_CONNECTION_TIME_MINUTES': `${props.meshMaxConnectionTimeMinutes!}`,
        'NODES_PER_CALLER': `${props.meshNodesPerCaller!}`,
      },
    });

    const meshApiKeyDaysLeftFilter = new logs.CfnMetricFilter(this, 'MeshApiKeyDaysLeftFilter', {
      logGroupName: meshResolverLogGroup.ref,
      filterPattern: '{ $.apiKeyDaysLeft = * }',
      metricTransformations: [
        {
          metricNamespace: `Ichido/mesh${props.suffix!}`,
          metricName: 'ApiKeyDaysLeft',
          metricValue: '$.apiKeyDaysLeft',
        },
      ],
    });

    const meshResolverRole = new iam.CfnRole(this, 'MeshResolverRole', {
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
          policyName: 'mesh-resolver',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Groups',
                Effect: 'Allow',
                Action: [
                  'dynamodb:ConditionCheckItem',
                  'dynamodb:DescribeTable',
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                  'dynamodb:DeleteItem',
                  'dynamodb:BatchWriteItem',
                  'dynamodb:Query',
                ],
                Resource: props.meshTableArn!,
              },
              {
                Sid: 'Index',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.meshTableArn!}/index/GSI1`,
              },
              {
                Sid: 'Failures',
                Effect: 'Allow',
                Action: 'sqs:SendMessage',
                Resource: props.meshResolverFailuresArn!,
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: meshResolverLogGroup.attrArn,
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

    const meshApiLogGroup = new logs.CfnLogGroup(this, 'MeshApiLogGroup', {
      logGroupName: `/aws/appsync/apis/${meshApi.attrApiId}`,
      retentionInDays: props.logRetentionDays!,
    });

    const meshErrorsAlarm = new cloudwatch.CfnAlarm(this, 'MeshErrorsAlarm', {
      alarmName: `mesh-errors${props.suffix!}`,
      alarmDescription: 'The API of the mesh keeps answering with 5xx. Runbook docs/runbooks/mesh-errors.md',
      namespace: 'AWS/AppSync',
      metricName: '5XXError',
      dimensions: [
        {
          name: 'GraphQLAPIId',
          value: meshApi.attrApiId,
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

    const meshLatencyAlarm = new cloudwatch.CfnAlarm(this, 'MeshLatencyAlarm', {
      alarmName: `mesh-latency${props.suffix!}`,
      alarmDescription: 'One in ten requests to the mesh takes longer than 1 s. Runbook docs/runbooks/mesh-latency.md',
      namespace: 'AWS/AppSync',
      metricName: 'Latency',
      dimensions: [
        {
          name: 'GraphQLAPIId',
          value: meshApi.attrApiId,
        },
      ],
      extendedStatistic: 'p90',
      period: 300,
      evaluationPeriods: 3,
      datapointsToAlarm: 3,
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 1000,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const meshResolverFunction = new lambda.CfnFunction(this, 'MeshResolverFunction', {
      functionName: `mesh-resolver${props.suffix!}`,
      description: 'Creates, leaves and dissolves groups, and names domains',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 25,
      role: meshResolverRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.meshResolverCodeKey!,
      },
      loggingConfig: {
        logGroup: meshResolverLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'TABLE_NAME': props.meshTableRef!,
          'MESH_MAX_CONNECTION_TIME_MINUTES': `${props.meshMaxConnectionTimeMinutes!}`,
          'HOST_HEARTBEAT_SECONDS': `${props.meshHostHeartbeatSeconds!}`,
          'POLLING_INTERVAL_SECONDS': `${props.meshPollingIntervalSeconds!}`,
          'GROUPS_PER_CALLER': `${props.meshGroupsPerCaller!}`,
          'MESSAGE_RETENTION_SECONDS': `${props.meshMessageRetentionSeconds!}`,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const meshSamplingRule = samplingIsOn
      ? new xray.CfnSamplingRule(this, 'MeshSamplingRule', {
          samplingRule: {
            ruleName: `mesh${props.suffix!}`,
            version: 1,
            priority: 1000,
            serviceType: 'AWS::AppSync::GraphQLAPI',
            resourceArn: meshApi.attrArn,
            reservoirSize: 0,
            fixedRate: 0.005,
            serviceName: '*',
            host: '*',
            httpMethod: '*',
            urlPath: '*',
          },
        })
      : undefined;
    if (meshSamplingRule != null) {
    }

    const meshSchema = new appsync.CfnGraphQLSchema(this, 'MeshSchema', {
      apiId: meshApi.attrApiId,
      definition: props.meshSchemaFile!,
    });

    const meshWebAclAssociation = rateRulesAreOn
      ? new wafv2.CfnWebACLAssociation(this, 'MeshWebAclAssociation', {
          resourceArn: meshApi.attrArn,
          webAclArn: `${meshWebAcl?.attrArn}`,
        })
      : undefined;
    if (meshWebAclAssociation != null) {
    }

    const meshApiKey = new appsync.CfnApiKey(this, 'MeshApiKey', {
      apiId: meshApi.attrApiId,
      description: 'For the clients of the mesh',
      expires: props.meshApiKeyExpires!,
    });
    meshApiKey.addResourceDependency(meshSchema);

    const meshNoneSource = new appsync.CfnDataSource(this, 'MeshNoneSource', {
      apiId: meshApi.attrApiId,
      name: 'MeshNoneSource',
      type: 'NONE',
    });
    meshNoneSource.addResourceDependency(meshSchema);

    const meshResolverErrorsAlarm = new cloudwatch.CfnAlarm(this, 'MeshResolverErrorsAlarm', {
      alarmName: `mesh-resolver-errors${props.suffix!}`,
      alarmDescription: 'mesh-resolver keeps failing, so groups cannot be created, left or dissolved. Runbook docs/runbooks/mesh-resolver-errors.md',
      namespace: 'AWS/Lambda',
      metricName: 'Errors',
      dimensions: [
        {
          name: 'FunctionName',
          value: meshResolverFunction.ref,
        },
        {
          name: 'Resource',
          value: `${meshResolverFunction.ref}:live`,
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

    const meshResolverThrottlesAlarm = new cloudwatch.CfnAlarm(this, 'MeshResolverThrottlesAlarm', {
      alarmName: `mesh-resolver-throttles${props.suffix!}`,
      alarmDescription: 'Lambda refuses to run mesh-resolver, because its concurrency is used up. Runbook docs/runbooks/mesh-resolver-throttles.md',
      namespace: 'AWS/Lambda',
      metricName: 'Throttles',
      dimensions: [
        {
          name: 'FunctionName',
          value: meshResolverFunction.ref,
        },
        {
          name: 'Resource',
          value: `${meshResolverFunction.ref}:live`,
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

    const meshResolverVersion = new lambda.CfnVersion(this, 'MeshResolverVersion', {
      functionName: meshResolverFunction.ref,
      description: 'Published when the function was created',
    });
    meshResolverVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const meshUnavailableFilter = new logs.CfnMetricFilter(this, 'MeshUnavailableFilter', {
      logGroupName: meshApiLogGroup.ref,
      filterPattern: '\"mesh-unavailable:\" -locations',
      metricTransformations: [
        {
          metricNamespace: `Ichido/mesh${props.suffix!}`,
          metricName: 'Unavailable',
          metricValue: '1',
        },
      ],
    });

    const checkBoundsStep = new appsync.CfnFunctionConfiguration(this, 'CheckBoundsStep', {
      apiId: meshApi.attrApiId,
      name: 'checkBounds',
      dataSourceName: meshNoneSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.checkBoundsStepFile!,
    });
    checkBoundsStep.addResourceDependency(meshSchema);

    const checkSecretStep = new appsync.CfnFunctionConfiguration(this, 'CheckSecretStep', {
      apiId: meshApi.attrApiId,
      name: 'checkSecret',
      dataSourceName: meshNoneSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.checkSecretStepFile!,
    });
    checkSecretStep.addResourceDependency(meshSchema);

    const meshResolverAlias = new lambda.CfnAlias(this, 'MeshResolverAlias', {
      name: 'live',
      functionName: meshResolverFunction.ref,
      functionVersion: meshResolverVersion.attrVersion,
    });

    const meshApiKeySchedulerRole = new iam.CfnRole(this, 'MeshApiKeySchedulerRole', {
      assumeRolePolicyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Effect: 'Allow',
            Principal: {
              Service: 'scheduler.amazonaws.com',
            },
            Action: 'sts:AssumeRole',
            Condition: {
              StringEquals: {
                'aws:SourceAccount': cdk.Stack.of(this).account,
              },
            },
          },
        ],
      },
      policies: [
        {
          policyName: 'mesh-api-key-schedule',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Run',
                Effect: 'Allow',
                Action: 'lambda:InvokeFunction',
                Resource: meshResolverAlias.ref,
              },
              {
                Sid: 'Failures',
                Effect: 'Allow',
                Action: 'sqs:SendMessage',
                Resource: props.meshResolverFailuresArn!,
              },
            ],
          },
        },
      ],
    });

    const meshResolverInvokeConfig = new lambda.CfnEventInvokeConfig(this, 'MeshResolverInvokeConfig', {
      functionName: meshResolverFunction.ref,
      qualifier: 'live',
      maximumRetryAttempts: 2,
      maximumEventAgeInSeconds: 21600,
      destinationConfig: {
        onFailure: {
          destination: props.meshResolverFailuresArn!,
        },
      },
    });
    meshResolverInvokeConfig.addResourceDependency(meshResolverAlias);

    const meshSourceRole = new iam.CfnRole(this, 'MeshSourceRole', {
      assumeRolePolicyDocument: {
        Version: '2012-10-17',
        Statement: [
          {
            Effect: 'Allow',
            Principal: {
              Service: 'appsync.amazonaws.com',
            },
            Action: 'sts:AssumeRole',
          },
        ],
      },
      policies: [
        {
          policyName: 'mesh-sources',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Table',
                Effect: 'Allow',
                Action: [
                  'dynamodb:BatchGetItem',
                  'dynamodb:ConditionCheckItem',
                  'dynamodb:DeleteItem',
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:Query',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.meshTableArn!,
              },
              {
                Sid: 'Index',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.meshTableArn!}/index/GSI1`,
              },
              {
                Sid: 'Function',
                Effect: 'Allow',
                Action: 'lambda:InvokeFunction',
                Resource: meshResolverAlias.ref,
              },
            ],
          },
        },
      ],
    });

    const meshApiKeySchedule = new scheduler.CfnSchedule(this, 'MeshApiKeySchedule', {
      name: props.meshApiKeyScheduleName!,
      description: 'Asks how long the API key of the mesh still lasts',
      scheduleExpression: 'rate(1 day)',
      flexibleTimeWindow: {
        mode: 'OFF',
      },
      state: 'ENABLED',
      target: {
        arn: meshResolverAlias.ref,
        roleArn: meshApiKeySchedulerRole.attrArn,
        input: `{"field":"checkApiKey","arguments":{"expires":${props.meshApiKeyExpires!}}}`,
        retryPolicy: {
          maximumRetryAttempts: 2,
          maximumEventAgeInSeconds: 43200,
        },
        deadLetterConfig: {
          arn: props.meshResolverFailuresArn!,
        },
      },
    });

    const meshLambdaSource = new appsync.CfnDataSource(this, 'MeshLambdaSource', {
      apiId: meshApi.attrApiId,
      name: 'MeshLambdaSource',
      type: 'AWS_LAMBDA',
      serviceRoleArn: meshSourceRole.attrArn,
      lambdaConfig: {
        lambdaFunctionArn: meshResolverAlias.ref,
      },
    });
    meshLambdaSource.addResourceDependency(meshSchema);

    const meshTableSource = new appsync.CfnDataSource(this, 'MeshTableSource', {
      apiId: meshApi.attrApiId,
      name: 'MeshTableSource',
      type: 'AMAZON_DYNAMODB',
      serviceRoleArn: meshSourceRole.attrArn,
      dynamoDbConfig: {
        tableName: props.meshTableRef!,
        awsRegion: cdk.Stack.of(this).region,
      },
    });
    meshTableSource.addResourceDependency(meshSchema);

    const checkFormerStep = new appsync.CfnFunctionConfiguration(this, 'CheckFormerStep', {
      apiId: meshApi.attrApiId,
      name: 'checkFormer',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.checkFormerStepFile!,
    });
    checkFormerStep.addResourceDependency(meshSchema);

    const checkGroupExistsStep = new appsync.CfnFunctionConfiguration(this, 'CheckGroupExistsStep', {
      apiId: meshApi.attrApiId,
      name: 'checkGroupExists',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.checkGroupExistsStepFile!,
    });
    checkGroupExistsStep.addResourceDependency(meshSchema);

    const checkMessageIdStep = new appsync.CfnFunctionConfiguration(this, 'CheckMessageIdStep', {
      apiId: meshApi.attrApiId,
      name: 'checkMessageId',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.checkMessageIdStepFile!,
    });
    checkMessageIdStep.addResourceDependency(meshSchema);

    const checkStandingStep = new appsync.CfnFunctionConfiguration(this, 'CheckStandingStep', {
      apiId: meshApi.attrApiId,
      name: 'checkStanding',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.checkStandingStepFile!,
    });
    checkStandingStep.addResourceDependency(meshSchema);

    const createDomainResolver = new appsync.CfnResolver(this, 'CreateDomainResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'createDomain',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.lambdaResolverFile!,
      kind: 'UNIT',
      dataSourceName: meshLambdaSource.attrName,
    });
    createDomainResolver.addResourceDependency(meshSchema);

    const createGroupResolver = new appsync.CfnResolver(this, 'CreateGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'createGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.lambdaResolverFile!,
      kind: 'UNIT',
      dataSourceName: meshLambdaSource.attrName,
    });
    createGroupResolver.addResourceDependency(meshSchema);

    const declareVoidStep = new appsync.CfnFunctionConfiguration(this, 'DeclareVoidStep', {
      apiId: meshApi.attrApiId,
      name: 'declareVoid',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.declareVoidStepFile!,
    });
    declareVoidStep.addResourceDependency(meshSchema);

    const dissolveGroupResolver = new appsync.CfnResolver(this, 'DissolveGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'dissolveGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.lambdaResolverFile!,
      kind: 'UNIT',
      dataSourceName: meshLambdaSource.attrName,
    });
    dissolveGroupResolver.addResourceDependency(meshSchema);

    const extendHostStep = new appsync.CfnFunctionConfiguration(this, 'ExtendHostStep', {
      apiId: meshApi.attrApiId,
      name: 'extendHost',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.extendHostStepFile!,
    });
    extendHostStep.addResourceDependency(meshSchema);

    const findMemberStep = new appsync.CfnFunctionConfiguration(this, 'FindMemberStep', {
      apiId: meshApi.attrApiId,
      name: 'findMember',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.findMemberStepFile!,
    });
    findMemberStep.addResourceDependency(meshSchema);

    const leaveGroupResolver = new appsync.CfnResolver(this, 'LeaveGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'leaveGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.lambdaResolverFile!,
      kind: 'UNIT',
      dataSourceName: meshLambdaSource.attrName,
    });
    leaveGroupResolver.addResourceDependency(meshSchema);

    const listGroupsStep = new appsync.CfnFunctionConfiguration(this, 'ListGroupsStep', {
      apiId: meshApi.attrApiId,
      name: 'listGroups',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.listGroupsStepFile!,
    });
    listGroupsStep.addResourceDependency(meshSchema);

    const listMembersStep = new appsync.CfnFunctionConfiguration(this, 'ListMembersStep', {
      apiId: meshApi.attrApiId,
      name: 'listMembers',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.listMembersStepFile!,
    });
    listMembersStep.addResourceDependency(meshSchema);

    const listStatusesStep = new appsync.CfnFunctionConfiguration(this, 'ListStatusesStep', {
      apiId: meshApi.attrApiId,
      name: 'listStatuses',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.listStatusesStepFile!,
    });
    listStatusesStep.addResourceDependency(meshSchema);

    const putMemberStep = new appsync.CfnFunctionConfiguration(this, 'PutMemberStep', {
      apiId: meshApi.attrApiId,
      name: 'putMember',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.putMemberStepFile!,
    });
    putMemberStep.addResourceDependency(meshSchema);

    const readEventsStep = new appsync.CfnFunctionConfiguration(this, 'ReadEventsStep', {
      apiId: meshApi.attrApiId,
      name: 'readEvents',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.readEventsStepFile!,
    });
    readEventsStep.addResourceDependency(meshSchema);

    const readGroupStep = new appsync.CfnFunctionConfiguration(this, 'ReadGroupStep', {
      apiId: meshApi.attrApiId,
      name: 'readGroup',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.readGroupStepFile!,
    });
    readGroupStep.addResourceDependency(meshSchema);

    const readLatestStep = new appsync.CfnFunctionConfiguration(this, 'ReadLatestStep', {
      apiId: meshApi.attrApiId,
      name: 'readLatest',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.readLatestStepFile!,
    });
    readLatestStep.addResourceDependency(meshSchema);

    const readMembershipStep = new appsync.CfnFunctionConfiguration(this, 'ReadMembershipStep', {
      apiId: meshApi.attrApiId,
      name: 'readMembership',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.readMembershipStepFile!,
    });
    readMembershipStep.addResourceDependency(meshSchema);

    const readMessagesStep = new appsync.CfnFunctionConfiguration(this, 'ReadMessagesStep', {
      apiId: meshApi.attrApiId,
      name: 'readMessages',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.readMessagesStepFile!,
    });
    readMessagesStep.addResourceDependency(meshSchema);

    const readStatusStep = new appsync.CfnFunctionConfiguration(this, 'ReadStatusStep', {
      apiId: meshApi.attrApiId,
      name: 'readStatus',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.readStatusStepFile!,
    });
    readStatusStep.addResourceDependency(meshSchema);

    const seekEventsStep = new appsync.CfnFunctionConfiguration(this, 'SeekEventsStep', {
      apiId: meshApi.attrApiId,
      name: 'seekEvents',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.seekEventsStepFile!,
    });
    seekEventsStep.addResourceDependency(meshSchema);

    const takeSequenceStep = new appsync.CfnFunctionConfiguration(this, 'TakeSequenceStep', {
      apiId: meshApi.attrApiId,
      name: 'takeSequence',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.takeSequenceStepFile!,
    });
    takeSequenceStep.addResourceDependency(meshSchema);

    const updateNodeTtlStep = new appsync.CfnFunctionConfiguration(this, 'UpdateNodeTTLStep', {
      apiId: meshApi.attrApiId,
      name: 'updateNodeTTL',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.updateNodeTtlStepFile!,
    });
    updateNodeTtlStep.addResourceDependency(meshSchema);

    const getEventsSinceResolver = new appsync.CfnResolver(this, 'GetEventsSinceResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Query',
      fieldName: 'getEventsSince',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.getEventsSinceResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkGroupExistsStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          checkSecretStep.attrFunctionId,
          readEventsStep.attrFunctionId,
          seekEventsStep.attrFunctionId,
          readEventsStep.attrFunctionId,
          seekEventsStep.attrFunctionId,
          readEventsStep.attrFunctionId,
        ],
      },
    });
    getEventsSinceResolver.addResourceDependency(meshSchema);

    const getGroupResolver = new appsync.CfnResolver(this, 'GetGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Query',
      fieldName: 'getGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.groupsResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkGroupExistsStep.attrFunctionId,
        ],
      },
    });
    getGroupResolver.addResourceDependency(meshSchema);

    const getMessagesSinceResolver = new appsync.CfnResolver(this, 'GetMessagesSinceResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Query',
      fieldName: 'getMessagesSince',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.getMessagesSinceResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkGroupExistsStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          checkSecretStep.attrFunctionId,
          readMessagesStep.attrFunctionId,
        ],
      },
    });
    getMessagesSinceResolver.addResourceDependency(meshSchema);

    const getNodeStatusResolver = new appsync.CfnResolver(this, 'GetNodeStatusResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Query',
      fieldName: 'getNodeStatus',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.passResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          readLatestStep.attrFunctionId,
          readStatusStep.attrFunctionId,
          checkStandingStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          checkSecretStep.attrFunctionId,
        ],
      },
    });
    getNodeStatusResolver.addResourceDependency(meshSchema);

    const joinGroupResolver = new appsync.CfnResolver(this, 'JoinGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'joinGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.joinGroupResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkGroupExistsStep.attrFunctionId,
          readMembershipStep.attrFunctionId,
          checkFormerStep.attrFunctionId,
          listMembersStep.attrFunctionId,
          listMembersStep.attrFunctionId,
          putMemberStep.attrFunctionId,
        ],
      },
    });
    joinGroupResolver.addResourceDependency(meshSchema);

    const listGroupStatusesResolver = new appsync.CfnResolver(this, 'ListGroupStatusesResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Query',
      fieldName: 'listGroupStatuses',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.passResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkGroupExistsStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          checkSecretStep.attrFunctionId,
          listMembersStep.attrFunctionId,
          listMembersStep.attrFunctionId,
          listStatusesStep.attrFunctionId,
          listStatusesStep.attrFunctionId,
        ],
      },
    });
    listGroupStatusesResolver.addResourceDependency(meshSchema);

    const listGroupsByDomainResolver = new appsync.CfnResolver(this, 'ListGroupsByDomainResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Query',
      fieldName: 'listGroupsByDomain',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.groupsResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          listGroupsStep.attrFunctionId,
          listGroupsStep.attrFunctionId,
          listGroupsStep.attrFunctionId,
        ],
      },
    });
    listGroupsByDomainResolver.addResourceDependency(meshSchema);

    const listNodesInGroupResolver = new appsync.CfnResolver(this, 'ListNodesInGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Query',
      fieldName: 'listNodesInGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.listNodesInGroupResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkGroupExistsStep.attrFunctionId,
          listMembersStep.attrFunctionId,
          listMembersStep.attrFunctionId,
        ],
      },
    });
    listNodesInGroupResolver.addResourceDependency(meshSchema);

    const onBatchEventInGroupResolver = new appsync.CfnResolver(this, 'OnBatchEventInGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Subscription',
      fieldName: 'onBatchEventInGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.subscribeResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          readGroupStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          checkSecretStep.attrFunctionId,
        ],
      },
    });
    onBatchEventInGroupResolver.addResourceDependency(meshSchema);

    const onDataUpdateInGroupResolver = new appsync.CfnResolver(this, 'OnDataUpdateInGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Subscription',
      fieldName: 'onDataUpdateInGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.subscribeResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          readGroupStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          checkSecretStep.attrFunctionId,
        ],
      },
    });
    onDataUpdateInGroupResolver.addResourceDependency(meshSchema);

    const onGroupDissolveResolver = new appsync.CfnResolver(this, 'OnGroupDissolveResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Subscription',
      fieldName: 'onGroupDissolve',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.subscribeResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          readGroupStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          checkSecretStep.attrFunctionId,
        ],
      },
    });
    onGroupDissolveResolver.addResourceDependency(meshSchema);

    const onMessageInGroupResolver = new appsync.CfnResolver(this, 'OnMessageInGroupResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Subscription',
      fieldName: 'onMessageInGroup',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.subscribeResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          readGroupStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          findMemberStep.attrFunctionId,
          checkSecretStep.attrFunctionId,
        ],
      },
    });
    onMessageInGroupResolver.addResourceDependency(meshSchema);

    const renewHeartbeatResolver = new appsync.CfnResolver(this, 'RenewHeartbeatResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'renewHeartbeat',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.renewHeartbeatResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkGroupExistsStep.attrFunctionId,
          extendHostStep.attrFunctionId,
        ],
      },
    });
    renewHeartbeatResolver.addResourceDependency(meshSchema);

    const sendMemberHeartbeatResolver = new appsync.CfnResolver(this, 'SendMemberHeartbeatResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'sendMemberHeartbeat',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.sendMemberHeartbeatResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkGroupExistsStep.attrFunctionId,
          updateNodeTtlStep.attrFunctionId,
        ],
      },
    });
    sendMemberHeartbeatResolver.addResourceDependency(meshSchema);

    const writeMessageStep = new appsync.CfnFunctionConfiguration(this, 'WriteMessageStep', {
      apiId: meshApi.attrApiId,
      name: 'writeMessage',
      dataSourceName: meshTableSource.attrName,
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.writeMessageStepFile!,
    });
    writeMessageStep.addResourceDependency(meshSchema);
    writeMessageStep.addResourceDependency(checkMessageIdStep);

    const fireEventsByNodeResolver = new appsync.CfnResolver(this, 'FireEventsByNodeResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'fireEventsByNode',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.publishEventsResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkMessageIdStep.attrFunctionId,
          takeSequenceStep.attrFunctionId,
          writeMessageStep.attrFunctionId,
          declareVoidStep.attrFunctionId,
        ],
      },
    });
    fireEventsByNodeResolver.addResourceDependency(meshSchema);

    const recordEventsByNodeResolver = new appsync.CfnResolver(this, 'RecordEventsByNodeResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'recordEventsByNode',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.publishEventsResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkMessageIdStep.attrFunctionId,
          takeSequenceStep.attrFunctionId,
          writeMessageStep.attrFunctionId,
          declareVoidStep.attrFunctionId,
        ],
      },
    });
    recordEventsByNodeResolver.addResourceDependency(meshSchema);

    const reportDataByNodeResolver = new appsync.CfnResolver(this, 'ReportDataByNodeResolver', {
      apiId: meshApi.attrApiId,
      typeName: 'Mutation',
      fieldName: 'reportDataByNode',
      runtime: {
        name: 'APPSYNC_JS',
        runtimeVersion: '1.0.0',
      },
      code: props.reportDataByNodeResolverFile!,
      kind: 'PIPELINE',
      pipelineConfig: {
        functions: [
          checkBoundsStep.attrFunctionId,
          checkMessageIdStep.attrFunctionId,
          takeSequenceStep.attrFunctionId,
          writeMessageStep.attrFunctionId,
          declareVoidStep.attrFunctionId,
        ],
      },
    });
    reportDataByNodeResolver.addResourceDependency(meshSchema);

    // Outputs
    this.meshApiId = meshApi.attrApiId;
    new cdk.CfnOutput(this, 'CfnOutputMeshApiId', {
      key: 'MeshApiId',
      description: 'The id of the API',
      value: this.meshApiId!.toString(),
    });
    this.meshEndpoint = meshApi.attrGraphQlUrl;
    new cdk.CfnOutput(this, 'CfnOutputMeshEndpoint', {
      key: 'MeshEndpoint',
      description: 'Where clients send queries and mutations',
      value: this.meshEndpoint!.toString(),
    });
    this.meshRealtimeEndpoint = meshApi.attrRealtimeUrl;
    new cdk.CfnOutput(this, 'CfnOutputMeshRealtimeEndpoint', {
      key: 'MeshRealtimeEndpoint',
      description: 'Where clients subscribe',
      value: this.meshRealtimeEndpoint!.toString(),
    });
  }
}
