// Generated from infra/templates by `make generate`. Do not edit.
import { type Construct } from 'constructs';
import { Shared } from './shared.ts';
import { SlackData } from './slack-data.ts';
import { Slack } from './slack.ts';

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
      properties: {"Environment":"environment","Suffix":"suffix","LogRetentionDays":"logRetentionDays","AlarmSubscription":"alarmSubscription","AlarmProtocol":"alarmProtocol","AlarmEndpoint":"alarmEndpoint","RequestsPerSecond":"requestsPerSecond","RequestBurst":"requestBurst","Budgets":"budgets","BudgetUsd":"budgetUsd","FeedsBudgetUsd":"feedsBudgetUsd"},
      outputs: {"HttpApiUrl":"httpApiUrl","HttpApiId":"httpApiId","AlarmTopicArn":"alarmTopicArn"},
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
      properties: {"Suffix":"suffix","Architecture":"architecture","CodeBucket":"codeBucket","LogLevel":"logLevel","LogRetentionDays":"logRetentionDays","TracingMode":"tracingMode","AlarmTopicArn":"alarmTopicArn","HttpApiId":"httpApiId","DedupFallback":"dedupFallback","SlackBotId":"slackBotId","SlackBotUserId":"slackBotUserId","SlackApiUrl":"slackApiUrl","SlackSigningSecretParameter":"slackSigningSecretParameter","SlackBotTokenParameter":"slackBotTokenParameter","SlackEventsCodeKey":"slackEventsCodeKey","SlackEventsRevision":"slackEventsRevision","SlackEventsLive":"slackEventsLive","SlackFilesCodeKey":"slackFilesCodeKey","SlackFilesRevision":"slackFilesRevision","SlackFilesLive":"slackFilesLive","ProcessedEventsTableArn":"processedEventsTableArn","ProcessedEventsTableRef":"processedEventsTableRef","SlackFilesFailuresArn":"slackFilesFailuresArn","SlackFilesFailuresQueueName":"slackFilesFailuresQueueName"},
      outputs: {"SlackRequestUrlPath":"slackRequestUrlPath"},
    },
    links: ["ProcessedEventsTableArn","ProcessedEventsTableRef","SlackFilesFailuresArn","SlackFilesFailuresQueueName"],
  },
];
