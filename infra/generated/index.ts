// Generated from infra/templates by `make generate`. Do not edit.
import { type Construct } from 'constructs';
import { Shared } from './shared.ts';
import { FeedsData } from './feeds-data.ts';
import { Feeds } from './feeds.ts';
import { MeshData } from './mesh-data.ts';
import { Mesh } from './mesh.ts';
import { SessyncData } from './sessync-data.ts';
import { Sessync } from './sessync.ts';
import { SlackData } from './slack-data.ts';
import { Slack } from './slack.ts';
import { TokensData } from './tokens-data.ts';
import { Tokens } from './tokens.ts';

/** A construct, its properties by the template's parameters, and its members by the template's outputs. */
export interface Part {
  create(scope: Construct, id: string, props: Record<string, unknown>): Construct;
  properties: Record<string, string>;
  outputs: Record<string, string>;
}

export interface Generated {
  name: string;
  data?: Part;
  service?: Part;
  /** Outputs of `data` that are properties of `service`. */
  links: string[];
}

export const generated: Generated[] = [
  {
    name: "shared",
    service: {
      create: (scope, id, props) => new Shared(scope, id, props as any),
      properties: {"Environment":"environment","Suffix":"suffix","LogRetentionDays":"logRetentionDays","AlarmSubscription":"alarmSubscription","AlarmProtocol":"alarmProtocol","AlarmEndpoint":"alarmEndpoint","SlackRequestsPerSecond":"slackRequestsPerSecond","SlackRequestBurst":"slackRequestBurst","TransferRequestsPerSecond":"transferRequestsPerSecond","TransferRequestBurst":"transferRequestBurst","ReadRequestsPerSecond":"readRequestsPerSecond","ReadRequestBurst":"readRequestBurst","OtherRequestsPerSecond":"otherRequestsPerSecond","OtherRequestBurst":"otherRequestBurst","Edge":"edge","EdgeWebAclArn":"edgeWebAclArn","DirectAddress":"directAddress","Budgets":"budgets","BudgetUsd":"budgetUsd","FeedsBudgetUsd":"feedsBudgetUsd","MeshApiId":"meshApiId","FurtherFeedsAlarm":"furtherFeedsAlarm"},
      outputs: {"HttpApiUrl":"httpApiUrl","HttpApiId":"httpApiId","AlarmTopicArn":"alarmTopicArn"},
    },
    links: [],
  },
  {
    name: "feeds",
    data: {
      create: (scope, id, props) => new FeedsData(scope, id, props as any),
      properties: {"Environment":"environment","Suffix":"suffix","GithubStateTableName":"githubStateTableName","HatebuStateTableName":"hatebuStateTableName","FeedsStateTableName":"feedsStateTableName"},
      outputs: {"GithubStateTableOutput":"githubStateTableOutput","HatebuStateTableOutput":"hatebuStateTableOutput","FeedsStateTableOutput":"feedsStateTableOutput","GithubSubscriberFailuresArn":"githubSubscriberFailuresArn","GithubStateTableArn":"githubStateTableArn","GithubStateTableRef":"githubStateTableRef","HatebuSubscriberFailuresArn":"hatebuSubscriberFailuresArn","HatebuStateTableArn":"hatebuStateTableArn","HatebuStateTableRef":"hatebuStateTableRef","FeedsSubscriberFailuresArn":"feedsSubscriberFailuresArn","FeedsStateTableArn":"feedsStateTableArn","FeedsStateTableRef":"feedsStateTableRef"},
    },
    service: {
      create: (scope, id, props) => new Feeds(scope, id, props as any),
      properties: {"Environment":"environment","Suffix":"suffix","Architecture":"architecture","CodeBucket":"codeBucket","LogLevel":"logLevel","LogRetentionDays":"logRetentionDays","TracingMode":"tracingMode","AlarmTopicArn":"alarmTopicArn","MastodonUrl":"mastodonUrl","MastodonVisibility":"mastodonVisibility","FeedFirstRun":"feedFirstRun","FeedShadow":"feedShadow","FeedAdaptive":"feedAdaptive","FeedAdaptiveLongestMinutes":"feedAdaptiveLongestMinutes","FeedDeadAfter":"feedDeadAfter","FeedGiveUpDays":"feedGiveUpDays","FeedParallelDeliveries":"feedParallelDeliveries","GithubScheduleName":"githubScheduleName","GithubScheduleState":"githubScheduleState","GithubFeedUrlParameter":"githubFeedUrlParameter","GithubMastodonTokenParameter":"githubMastodonTokenParameter","GithubStatusTemplate":"githubStatusTemplate","GithubIgnoreTitle":"githubIgnoreTitle","GithubIgnoreLink":"githubIgnoreLink","PushoverUrl":"pushoverUrl","PushoverTokenParameter":"pushoverTokenParameter","PushoverUserParameter":"pushoverUserParameter","PushoverTitle":"pushoverTitle","PushoverWhenUnsure":"pushoverWhenUnsure","HatebuScheduleName":"hatebuScheduleName","HatebuScheduleState":"hatebuScheduleState","HatebuFeedUrlParameter":"hatebuFeedUrlParameter","HatebuMastodonTokenParameter":"hatebuMastodonTokenParameter","HatebuStatusTemplate":"hatebuStatusTemplate","HatebuIgnoreTitle":"hatebuIgnoreTitle","HatebuIgnoreLink":"hatebuIgnoreLink","FurtherFeeds":"furtherFeeds","FurtherFeedsState":"furtherFeedsState","FeedsMastodonTokenParameter":"feedsMastodonTokenParameter","FeedsPushoverTokenParameter":"feedsPushoverTokenParameter","FeedsPushoverUserParameter":"feedsPushoverUserParameter","SlackApiUrl":"slackApiUrl","FeedsSlackBotTokenParameter":"feedsSlackBotTokenParameter","FeedsWebhookKeyParameter":"feedsWebhookKeyParameter","GithubSubscriberCodeKey":"githubSubscriberCodeKey","GithubNotifierCodeKey":"githubNotifierCodeKey","HatebuSubscriberCodeKey":"hatebuSubscriberCodeKey","HatebuNotifierCodeKey":"hatebuNotifierCodeKey","FeedsSubscriberCodeKey":"feedsSubscriberCodeKey","FeedsNotifierCodeKey":"feedsNotifierCodeKey","GithubSubscriberFailuresArn":"githubSubscriberFailuresArn","GithubStateTableArn":"githubStateTableArn","GithubStateTableRef":"githubStateTableRef","HatebuSubscriberFailuresArn":"hatebuSubscriberFailuresArn","HatebuStateTableArn":"hatebuStateTableArn","HatebuStateTableRef":"hatebuStateTableRef","FeedsSubscriberFailuresArn":"feedsSubscriberFailuresArn","FeedsStateTableArn":"feedsStateTableArn","FeedsStateTableRef":"feedsStateTableRef"},
      outputs: {},
    },
    links: ["GithubSubscriberFailuresArn","GithubStateTableArn","GithubStateTableRef","HatebuSubscriberFailuresArn","HatebuStateTableArn","HatebuStateTableRef","FeedsSubscriberFailuresArn","FeedsStateTableArn","FeedsStateTableRef"],
  },
  {
    name: "mesh",
    data: {
      create: (scope, id, props) => new MeshData(scope, id, props as any),
      properties: {"Environment":"environment","Suffix":"suffix","MeshTableName":"meshTableName"},
      outputs: {"MeshResolverFailuresArn":"meshResolverFailuresArn","MeshTableArn":"meshTableArn","MeshTableRef":"meshTableRef"},
    },
    service: {
      create: (scope, id, props) => new Mesh(scope, id, props as any),
      properties: {"Suffix":"suffix","Architecture":"architecture","CodeBucket":"codeBucket","LogLevel":"logLevel","LogRetentionDays":"logRetentionDays","TracingMode":"tracingMode","AlarmTopicArn":"alarmTopicArn","MeshTableName":"meshTableName","MeshHostHeartbeatSeconds":"meshHostHeartbeatSeconds","MeshMemberHeartbeatSeconds":"meshMemberHeartbeatSeconds","MeshMaxConnectionTimeMinutes":"meshMaxConnectionTimeMinutes","MeshPollingIntervalSeconds":"meshPollingIntervalSeconds","MeshMessageRetentionSeconds":"meshMessageRetentionSeconds","MeshApiKeyExpires":"meshApiKeyExpires","MeshGroupsPerCaller":"meshGroupsPerCaller","MeshNodesPerCaller":"meshNodesPerCaller","MeshIntrospection":"meshIntrospection","MeshRateRules":"meshRateRules","MeshRequestsPerFiveMinutes":"meshRequestsPerFiveMinutes","MeshSampling":"meshSampling","MeshApiKeyScheduleName":"meshApiKeyScheduleName","MeshSchemaFile":"meshSchemaFile","GetEventsSinceResolverFile":"getEventsSinceResolverFile","GetMessagesSinceResolverFile":"getMessagesSinceResolverFile","GroupsResolverFile":"groupsResolverFile","JoinGroupResolverFile":"joinGroupResolverFile","LambdaResolverFile":"lambdaResolverFile","ListNodesInGroupResolverFile":"listNodesInGroupResolverFile","PassResolverFile":"passResolverFile","PublishEventsResolverFile":"publishEventsResolverFile","RenewHeartbeatResolverFile":"renewHeartbeatResolverFile","ReportDataByNodeResolverFile":"reportDataByNodeResolverFile","SendMemberHeartbeatResolverFile":"sendMemberHeartbeatResolverFile","SubscribeResolverFile":"subscribeResolverFile","CheckBoundsStepFile":"checkBoundsStepFile","CheckFormerStepFile":"checkFormerStepFile","CheckGroupExistsStepFile":"checkGroupExistsStepFile","CheckMessageIdStepFile":"checkMessageIdStepFile","CheckSecretStepFile":"checkSecretStepFile","CheckStandingStepFile":"checkStandingStepFile","DeclareVoidStepFile":"declareVoidStepFile","ExtendHostStepFile":"extendHostStepFile","FindMemberStepFile":"findMemberStepFile","ListGroupsStepFile":"listGroupsStepFile","ListMembersStepFile":"listMembersStepFile","ListStatusesStepFile":"listStatusesStepFile","PutMemberStepFile":"putMemberStepFile","ReadEventsStepFile":"readEventsStepFile","ReadGroupStepFile":"readGroupStepFile","ReadLatestStepFile":"readLatestStepFile","ReadMembershipStepFile":"readMembershipStepFile","ReadMessagesStepFile":"readMessagesStepFile","ReadStatusStepFile":"readStatusStepFile","SeekEventsStepFile":"seekEventsStepFile","TakeSequenceStepFile":"takeSequenceStepFile","UpdateNodeTTLStepFile":"updateNodeTtlStepFile","WriteMessageStepFile":"writeMessageStepFile","MeshResolverCodeKey":"meshResolverCodeKey","MeshResolverFailuresArn":"meshResolverFailuresArn","MeshTableArn":"meshTableArn","MeshTableRef":"meshTableRef"},
      outputs: {"MeshApiId":"meshApiId","MeshEndpoint":"meshEndpoint","MeshRealtimeEndpoint":"meshRealtimeEndpoint"},
    },
    links: ["MeshResolverFailuresArn","MeshTableArn","MeshTableRef"],
  },
  {
    name: "sessync",
    data: {
      create: (scope, id, props) => new SessyncData(scope, id, props as any),
      properties: {"Environment":"environment","SessyncState":"sessyncState","SessyncStateTableName":"sessyncStateTableName"},
      outputs: {},
    },
    service: {
      create: (scope, id, props) => new Sessync(scope, id, props as any),
      properties: {"Suffix":"suffix","SessyncState":"sessyncState","SessyncStateTableName":"sessyncStateTableName"},
      outputs: {},
    },
    links: [],
  },
  {
    name: "slack",
    data: {
      create: (scope, id, props) => new SlackData(scope, id, props as any),
      properties: {"Environment":"environment","Suffix":"suffix","ProcessedEventsTableName":"processedEventsTableName"},
      outputs: {"SlackFilesFailuresUrl":"slackFilesFailuresUrl","ProcessedEventsTableArn":"processedEventsTableArn","ProcessedEventsTableRef":"processedEventsTableRef","SlackFilesFailuresArn":"slackFilesFailuresArn","SlackFilesFailuresQueueName":"slackFilesFailuresQueueName"},
    },
    service: {
      create: (scope, id, props) => new Slack(scope, id, props as any),
      properties: {"Suffix":"suffix","Architecture":"architecture","CodeBucket":"codeBucket","LogLevel":"logLevel","LogRetentionDays":"logRetentionDays","TracingMode":"tracingMode","AlarmTopicArn":"alarmTopicArn","HttpApiId":"httpApiId","DedupFallback":"dedupFallback","SlackBotId":"slackBotId","SlackBotUserId":"slackBotUserId","SlackApiUrl":"slackApiUrl","SlackSameContentChannels":"slackSameContentChannels","SlackSameContentHours":"slackSameContentHours","SlackSigningSecretParameter":"slackSigningSecretParameter","SlackBotTokenParameter":"slackBotTokenParameter","SlackEventsCodeKey":"slackEventsCodeKey","SlackFilesCodeKey":"slackFilesCodeKey","ProcessedEventsTableArn":"processedEventsTableArn","ProcessedEventsTableRef":"processedEventsTableRef","SlackFilesFailuresArn":"slackFilesFailuresArn","SlackFilesFailuresQueueName":"slackFilesFailuresQueueName"},
      outputs: {"SlackRequestUrlPath":"slackRequestUrlPath"},
    },
    links: ["ProcessedEventsTableArn","ProcessedEventsTableRef","SlackFilesFailuresArn","SlackFilesFailuresQueueName"],
  },
  {
    name: "tokens",
    data: {
      create: (scope, id, props) => new TokensData(scope, id, props as any),
      properties: {"Environment":"environment","TokensTableName":"tokensTableName"},
      outputs: {"TokensTableOutput":"tokensTableOutput","TokensTableArn":"tokensTableArn","TokensTableRef":"tokensTableRef"},
    },
    service: {
      create: (scope, id, props) => new Tokens(scope, id, props as any),
      properties: {"Suffix":"suffix","Architecture":"architecture","CodeBucket":"codeBucket","LogLevel":"logLevel","LogRetentionDays":"logRetentionDays","TracingMode":"tracingMode","AlarmTopicArn":"alarmTopicArn","HttpApiId":"httpApiId","JwtIssuer":"jwtIssuer","JwtAudience":"jwtAudience","JwtKeysParameter":"jwtKeysParameter","InitialGrant":"initialGrant","TaxRate":"taxRate","TransferLimit":"transferLimit","DailyLimit":"dailyLimit","IdempotencyWindow":"idempotencyWindow","TreasuryDid":"treasuryDid","TreasuryShards":"treasuryShards","TokensApiCodeKey":"tokensApiCodeKey","TokensTableArn":"tokensTableArn","TokensTableRef":"tokensTableRef"},
      outputs: {"TokensUrlPath":"tokensUrlPath"},
    },
    links: ["TokensTableArn","TokensTableRef"],
  },
];
