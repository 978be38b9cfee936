// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as scheduler from 'aws-cdk-lib/aws-scheduler';
import { Construct } from 'constructs';

export interface FeedsProps {
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
   * The Mastodon instance
   * @default 'https://mastodon.example'
   */
  readonly mastodonUrl?: string;
  /**
   * Who sees the posts
   * @default 'public'
   */
  readonly mastodonVisibility?: string;
  /**
   * What the first read of a feed posts - mark (nothing), last:N or all
   * @default 'mark'
   */
  readonly feedFirstRun?: string;
  /**
   * on rehearses - nothing is posted, and a report compares what would have been with what the account has
   * @default 'off'
   */
  readonly feedShadow?: string;
  /**
   * on reads a quiet feed less often
   * @default 'off'
   */
  readonly feedAdaptive?: string;
  /**
   * Longest pause of adaptive reading
   * @default 120
   */
  readonly feedAdaptiveLongestMinutes?: number;
  /**
   * Refusals by a destination after which a delivery is a dead letter
   * @default 5
   */
  readonly feedDeadAfter?: number;
  /**
   * Days after which a delivery that is still owed is a dead letter
   * @default 14
   */
  readonly feedGiveUpDays?: number;
  /**
   * How many entries are delivered at the same time
   * @default 4
   */
  readonly feedParallelDeliveries?: number;
  /**
   * Reads GitHub's feed every 5 minutes
   * @default 'github-feed-subscriber-schedule'
   */
  readonly githubScheduleName?: string;
  /**
   * DISABLED stops reading GitHub's feed; what is owed waits
   * @default 'ENABLED'
   */
  readonly githubScheduleState?: string;
  /**
   * Name of the SecureString with the feed's URL, token included
   * @default '/ichido/local/feeds/github-url'
   */
  readonly githubFeedUrlParameter?: string;
  /**
   * Name of the SecureString with the access token that posts GitHub's entries
   * @default '/ichido/local/feeds/github-mastodon-token'
   */
  readonly githubMastodonTokenParameter?: string;
  /**
   * The post; title, link, author and comment in braces
   * @default '[GH] {title} {link}'
   */
  readonly githubStatusTemplate?: string;
  /**
   * Entries whose title matches this regular expression are not posted; empty is off
   * @default ''
   */
  readonly githubIgnoreTitle?: string;
  /**
   * Entries whose link matches this regular expression are not posted; empty is off
   * @default ''
   */
  readonly githubIgnoreLink?: string;
  /**
   * The API of Pushover
   * @default 'https://api.pushover.net/'
   */
  readonly pushoverUrl?: string;
  /**
   * Name of the SecureString with the application's token
   * @default '/ichido/local/feeds/pushover-token'
   */
  readonly pushoverTokenParameter?: string;
  /**
   * Name of the SecureString with the user's key
   * @default '/ichido/local/feeds/pushover-user'
   */
  readonly pushoverUserParameter?: string;
  /**
   * Only titles that match this regular expression are pushed; empty is off, all are
   * @default ''
   */
  readonly pushoverTitle?: string;
  /**
   * A message whose answer was lost - repeat may double it, never makes it a dead letter
   * @default 'repeat'
   */
  readonly pushoverWhenUnsure?: string;
  /**
   * Reads Hatena Bookmark's feed every 15 minutes
   * @default 'hatebu-feed-subscriber-schedule'
   */
  readonly hatebuScheduleName?: string;
  /**
   * DISABLED stops reading Hatena Bookmark's feed; what is owed waits
   * @default 'ENABLED'
   */
  readonly hatebuScheduleState?: string;
  /**
   * Name of the SecureString with the feed's URL, token included
   * @default '/ichido/local/feeds/hatebu-url'
   */
  readonly hatebuFeedUrlParameter?: string;
  /**
   * Name of the SecureString with the access token that posts Hatena Bookmark's entries
   * @default '/ichido/local/feeds/hatebu-mastodon-token'
   */
  readonly hatebuMastodonTokenParameter?: string;
  /**
   * The post; title, link, author and comment in braces
   * @default '[B!] id:{author} {comment} > {title} {link}'
   */
  readonly hatebuStatusTemplate?: string;
  /**
   * Entries whose title matches this regular expression are not posted; empty is off
   * @default ''
   */
  readonly hatebuIgnoreTitle?: string;
  /**
   * Entries whose link matches this regular expression are not posted; empty is off
   * @default ''
   */
  readonly hatebuIgnoreLink?: string;
  /**
   * on if the environment lists further feeds
   * @default 'off'
   */
  readonly furtherFeeds?: string;
  /**
   * DISABLED if all further feeds are paused
   * @default 'ENABLED'
   */
  readonly furtherFeedsState?: string;
  /**
   * Name of the SecureString with the access token that posts the entries of further feeds
   * @default '/ichido/local/feeds/mastodon-token'
   */
  readonly feedsMastodonTokenParameter?: string;
  /**
   * Name of the SecureString with the application's token, for further feeds
   * @default '/ichido/local/feeds/pushover-token'
   */
  readonly feedsPushoverTokenParameter?: string;
  /**
   * Name of the SecureString with the user's key, for further feeds
   * @default '/ichido/local/feeds/pushover-user'
   */
  readonly feedsPushoverUserParameter?: string;
  /**
   * The Web API of Slack
   * @default 'https://slack.com/api'
   */
  readonly slackApiUrl?: string;
  /**
   * Name of the SecureString with the bot token that posts the entries of further feeds
   * @default '/ichido/local/feeds/slack-bot-token'
   */
  readonly feedsSlackBotTokenParameter?: string;
  /**
   * Name of the SecureString with the key that signs webhooks
   * @default '/ichido/local/feeds/webhook-key'
   */
  readonly feedsWebhookKeyParameter?: string;
  /**
   * The zip in the bucket
   * @default 'github-subscriber.zip'
   */
  readonly githubSubscriberCodeKey?: string;
  /**
   * The zip in the bucket
   * @default 'github-notifier.zip'
   */
  readonly githubNotifierCodeKey?: string;
  /**
   * The zip in the bucket
   * @default 'hatebu-subscriber.zip'
   */
  readonly hatebuSubscriberCodeKey?: string;
  /**
   * The zip in the bucket
   * @default 'hatebu-notifier.zip'
   */
  readonly hatebuNotifierCodeKey?: string;
  /**
   * The zip in the bucket
   * @default 'feeds-subscriber.zip'
   */
  readonly feedsSubscriberCodeKey?: string;
  /**
   * The zip in the bucket
   * @default 'feeds-notifier.zip'
   */
  readonly feedsNotifierCodeKey?: string;
  /**
   * GithubSubscriberFailuresArn of feeds-data
   */
  readonly githubSubscriberFailuresArn: string;
  /**
   * GithubStateTableArn of feeds-data
   */
  readonly githubStateTableArn: string;
  /**
   * GithubStateTableRef of feeds-data
   */
  readonly githubStateTableRef: string;
  /**
   * HatebuSubscriberFailuresArn of feeds-data
   */
  readonly hatebuSubscriberFailuresArn: string;
  /**
   * HatebuStateTableArn of feeds-data
   */
  readonly hatebuStateTableArn: string;
  /**
   * HatebuStateTableRef of feeds-data
   */
  readonly hatebuStateTableRef: string;
  /**
   * FeedsSubscriberFailuresArn of feeds-data
   */
  readonly feedsSubscriberFailuresArn: string;
  /**
   * FeedsStateTableArn of feeds-data
   */
  readonly feedsStateTableArn: string;
  /**
   * FeedsStateTableRef of feeds-data
   */
  readonly feedsStateTableRef: string;
}

/**
 * Feeds: every entry delivered, none twice
 */
export class Feeds extends Construct {
  public constructor(scope: Construct, id: string, props: FeedsProps) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      environment: props.environment ?? 'local',
      suffix: props.suffix ?? '',
      architecture: props.architecture ?? 'arm64',
      codeBucket: props.codeBucket ?? 'code',
      logLevel: props.logLevel ?? 'info',
      logRetentionDays: props.logRetentionDays ?? 30,
      tracingMode: props.tracingMode ?? 'Active',
      alarmTopicArn: props.alarmTopicArn ?? 'arn:aws:sns:ap-northeast-1:000000000000:ichido-alarms',
      mastodonUrl: props.mastodonUrl ?? 'https://mastodon.example',
      mastodonVisibility: props.mastodonVisibility ?? 'public',
      feedFirstRun: props.feedFirstRun ?? 'mark',
      feedShadow: props.feedShadow ?? 'off',
      feedAdaptive: props.feedAdaptive ?? 'off',
      feedAdaptiveLongestMinutes: props.feedAdaptiveLongestMinutes ?? 120,
      feedDeadAfter: props.feedDeadAfter ?? 5,
      feedGiveUpDays: props.feedGiveUpDays ?? 14,
      feedParallelDeliveries: props.feedParallelDeliveries ?? 4,
      githubScheduleName: props.githubScheduleName ?? 'github-feed-subscriber-schedule',
      githubScheduleState: props.githubScheduleState ?? 'ENABLED',
      githubFeedUrlParameter: props.githubFeedUrlParameter ?? '/ichido/local/feeds/github-url',
      githubMastodonTokenParameter: props.githubMastodonTokenParameter ?? '/ichido/local/feeds/github-mastodon-token',
      githubStatusTemplate: props.githubStatusTemplate ?? '[GH] {title} {link}',
      githubIgnoreTitle: props.githubIgnoreTitle ?? '',
      githubIgnoreLink: props.githubIgnoreLink ?? '',
      pushoverUrl: props.pushoverUrl ?? 'https://api.pushover.net/',
      pushoverTokenParameter: props.pushoverTokenParameter ?? '/ichido/local/feeds/pushover-token',
      pushoverUserParameter: props.pushoverUserParameter ?? '/ichido/local/feeds/pushover-user',
      pushoverTitle: props.pushoverTitle ?? '',
      pushoverWhenUnsure: props.pushoverWhenUnsure ?? 'repeat',
      hatebuScheduleName: props.hatebuScheduleName ?? 'hatebu-feed-subscriber-schedule',
      hatebuScheduleState: props.hatebuScheduleState ?? 'ENABLED',
      hatebuFeedUrlParameter: props.hatebuFeedUrlParameter ?? '/ichido/local/feeds/hatebu-url',
      hatebuMastodonTokenParameter: props.hatebuMastodonTokenParameter ?? '/ichido/local/feeds/hatebu-mastodon-token',
      hatebuStatusTemplate: props.hatebuStatusTemplate ?? '[B!] id:{author} {comment} > {title} {link}',
      hatebuIgnoreTitle: props.hatebuIgnoreTitle ?? '',
      hatebuIgnoreLink: props.hatebuIgnoreLink ?? '',
      furtherFeeds: props.furtherFeeds ?? 'off',
      furtherFeedsState: props.furtherFeedsState ?? 'ENABLED',
      feedsMastodonTokenParameter: props.feedsMastodonTokenParameter ?? '/ichido/local/feeds/mastodon-token',
      feedsPushoverTokenParameter: props.feedsPushoverTokenParameter ?? '/ichido/local/feeds/pushover-token',
      feedsPushoverUserParameter: props.feedsPushoverUserParameter ?? '/ichido/local/feeds/pushover-user',
      slackApiUrl: props.slackApiUrl ?? 'https://slack.com/api',
      feedsSlackBotTokenParameter: props.feedsSlackBotTokenParameter ?? '/ichido/local/feeds/slack-bot-token',
      feedsWebhookKeyParameter: props.feedsWebhookKeyParameter ?? '/ichido/local/feeds/webhook-key',
      githubSubscriberCodeKey: props.githubSubscriberCodeKey ?? 'github-subscriber.zip',
      githubNotifierCodeKey: props.githubNotifierCodeKey ?? 'github-notifier.zip',
      hatebuSubscriberCodeKey: props.hatebuSubscriberCodeKey ?? 'hatebu-subscriber.zip',
      hatebuNotifierCodeKey: props.hatebuNotifierCodeKey ?? 'hatebu-notifier.zip',
      feedsSubscriberCodeKey: props.feedsSubscriberCodeKey ?? 'feeds-subscriber.zip',
      feedsNotifierCodeKey: props.feedsNotifierCodeKey ?? 'feeds-notifier.zip',
    };

    // Conditions
    const furtherFeedsArePaused = props.furtherFeedsState! === 'DISABLED';
    const githubIsPaused = props.githubScheduleState! === 'DISABLED';
    const hasFurtherFeeds = props.furtherFeeds! === 'on';
    const hatebuIsPaused = props.hatebuScheduleState! === 'DISABLED';

    // Resources
    const feedsNotifierLogGroup = new logs.CfnLogGroup(this, 'FeedsNotifierLogGroup', {
      logGroupName: `/aws/lambda/feeds-notifier${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const feedsSubscriberLogGroup = new logs.CfnLogGroup(this, 'FeedsSubscriberLogGroup', {
      logGroupName: `/aws/lambda/feeds-subscriber${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const githubNotifierLogGroup = new logs.CfnLogGroup(this, 'GithubNotifierLogGroup', {
      logGroupName: `/aws/lambda/github-notifier${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const githubSubscriberLogGroup = new logs.CfnLogGroup(this, 'GithubSubscriberLogGroup', {
      logGroupName: `/aws/lambda/github-subscriber${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const hatebuNotifierLogGroup = new logs.CfnLogGroup(this, 'HatebuNotifierLogGroup', {
      logGroupName: `/aws/lambda/hatebu-notifier${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const hatebuSubscriberLogGroup = new logs.CfnLogGroup(this, 'HatebuSubscriberLogGroup', {
      logGroupName: `/aws/lambda/hatebu-subscriber${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const feedsNotifierRole = new iam.CfnRole(this, 'FeedsNotifierRole', {
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
          policyName: 'feeds-notifier',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'State',
                Effect: 'Allow',
                Action: [
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.feedsStateTableArn!,
              },
              {
                Sid: 'Pending',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.feedsStateTableArn!}/index/pending`,
              },
              {
                Sid: 'Secrets',
                Effect: 'Allow',
                Action: 'ssm:GetParameters',
                Resource: [
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.feedsMastodonTokenParameter!}`,
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.feedsPushoverTokenParameter!}`,
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.feedsPushoverUserParameter!}`,
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.feedsSlackBotTokenParameter!}`,
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.feedsWebhookKeyParameter!}`,
                ],
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: feedsNotifierLogGroup.attrArn,
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

    const githubNotifierRole = new iam.CfnRole(this, 'GithubNotifierRole', {
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
          policyName: 'github-notifier',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'State',
                Effect: 'Allow',
                Action: [
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.githubStateTableArn!,
              },
              {
                Sid: 'Pending',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.githubStateTableArn!}/index/pending`,
              },
              {
                Sid: 'Secrets',
                Effect: 'Allow',
                Action: 'ssm:GetParameters',
                Resource: [
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.githubMastodonTokenParameter!}`,
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.pushoverTokenParameter!}`,
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.pushoverUserParameter!}`,
                ],
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: githubNotifierLogGroup.attrArn,
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

    const hatebuNotifierRole = new iam.CfnRole(this, 'HatebuNotifierRole', {
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
          policyName: 'hatebu-notifier',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'State',
                Effect: 'Allow',
                Action: [
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.hatebuStateTableArn!,
              },
              {
                Sid: 'Pending',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.hatebuStateTableArn!}/index/pending`,
              },
              {
                Sid: 'Secrets',
                Effect: 'Allow',
                Action: 'ssm:GetParameters',
                Resource: [
                  `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.hatebuMastodonTokenParameter!}`,
                ],
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: hatebuNotifierLogGroup.attrArn,
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

    const feedsNotifierFunction = new lambda.CfnFunction(this, 'FeedsNotifierFunction', {
      functionName: `feeds-notifier${props.suffix!}`,
      description: 'Delivers an entry of a feed to its destinations, each once',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 40,
      role: feedsNotifierRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.feedsNotifierCodeKey!,
      },
      loggingConfig: {
        logGroup: feedsNotifierLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'STATE_TABLE_NAME': props.feedsStateTableRef!,
          'FEED_SECRETS_PREFIX': `/ichido/${props.environment!}/feeds/`,
          SHADOW: props.feedShadow!,
          'MASTODON_URL': props.mastodonUrl!,
          'MASTODON_TOKEN_PARAMETER': props.feedsMastodonTokenParameter!,
          'MASTODON_VISIBILITY': props.mastodonVisibility!,
          'PUSHOVER_URL': props.pushoverUrl!,
          'PUSHOVER_TOKEN_PARAMETER': props.feedsPushoverTokenParameter!,
          'PUSHOVER_USER_PARAMETER': props.feedsPushoverUserParameter!,
          'PUSHOVER_WHEN_UNSURE': props.pushoverWhenUnsure!,
          'SLACK_API_URL': props.slackApiUrl!,
          'SLACK_BOT_TOKEN_PARAMETER': props.feedsSlackBotTokenParameter!,
          'WEBHOOK_KEY_PARAMETER': props.feedsWebhookKeyParameter!,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const githubNotifierFunction = new lambda.CfnFunction(this, 'GithubNotifierFunction', {
      functionName: `github-notifier${props.suffix!}`,
      description: 'Delivers an entry of GitHub to Mastodon and Pushover, each once',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 40,
      role: githubNotifierRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.githubNotifierCodeKey!,
      },
      loggingConfig: {
        logGroup: githubNotifierLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'STATE_TABLE_NAME': props.githubStateTableRef!,
          'MASTODON_URL': props.mastodonUrl!,
          'MASTODON_TOKEN_PARAMETER': props.githubMastodonTokenParameter!,
          'MASTODON_VISIBILITY': props.mastodonVisibility!,
          'STATUS_TEMPLATE': props.githubStatusTemplate!,
          SHADOW: props.feedShadow!,
          'PUSHOVER_URL': props.pushoverUrl!,
          'PUSHOVER_TOKEN_PARAMETER': props.pushoverTokenParameter!,
          'PUSHOVER_USER_PARAMETER': props.pushoverUserParameter!,
          'PUSHOVER_TITLE': props.pushoverTitle!,
          'PUSHOVER_WHEN_UNSURE': props.pushoverWhenUnsure!,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const hatebuNotifierFunction = new lambda.CfnFunction(this, 'HatebuNotifierFunction', {
      functionName: `hatebu-notifier${props.suffix!}`,
      description: 'Delivers an entry of Hatena Bookmark to Mastodon, each once',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 40,
      role: hatebuNotifierRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.hatebuNotifierCodeKey!,
      },
      loggingConfig: {
        logGroup: hatebuNotifierLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'STATE_TABLE_NAME': props.hatebuStateTableRef!,
          'MASTODON_URL': props.mastodonUrl!,
          'MASTODON_TOKEN_PARAMETER': props.hatebuMastodonTokenParameter!,
          'MASTODON_VISIBILITY': props.mastodonVisibility!,
          'STATUS_TEMPLATE': props.hatebuStatusTemplate!,
          SHADOW: props.feedShadow!,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const feedsNotifierVersion = new lambda.CfnVersion(this, 'FeedsNotifierVersion', {
      functionName: feedsNotifierFunction.ref,
      description: 'Published when the function was created',
    });
    feedsNotifierVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const githubNotifierErrorsAlarm = new cloudwatch.CfnAlarm(this, 'GithubNotifierErrorsAlarm', {
      alarmName: `github-notifier-errors${props.suffix!}`,
      alarmDescription: 'The function that delivers GitHub\'s entries failed in three of the last four periods, or a destination refuses its token. Runbook docs/runbooks/notifier-errors.md',
      namespace: 'AWS/Lambda',
      metricName: 'Errors',
      dimensions: [
        {
          name: 'FunctionName',
          value: githubNotifierFunction.ref,
        },
        {
          name: 'Resource',
          value: `${githubNotifierFunction.ref}:live`,
        },
      ],
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 4,
      datapointsToAlarm: 3,
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

    const githubNotifierVersion = new lambda.CfnVersion(this, 'GithubNotifierVersion', {
      functionName: githubNotifierFunction.ref,
      description: 'Published when the function was created',
    });
    githubNotifierVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const hatebuNotifierErrorsAlarm = new cloudwatch.CfnAlarm(this, 'HatebuNotifierErrorsAlarm', {
      alarmName: `hatebu-notifier-errors${props.suffix!}`,
      alarmDescription: 'The function that delivers Hatena Bookmark\'s entries failed in three of the last four periods, or a destination refuses its token. Runbook docs/runbooks/notifier-errors.md',
      namespace: 'AWS/Lambda',
      metricName: 'Errors',
      dimensions: [
        {
          name: 'FunctionName',
          value: hatebuNotifierFunction.ref,
        },
        {
          name: 'Resource',
          value: `${hatebuNotifierFunction.ref}:live`,
        },
      ],
      statistic: 'Sum',
      period: 900,
      evaluationPeriods: 4,
      datapointsToAlarm: 3,
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

    const hatebuNotifierVersion = new lambda.CfnVersion(this, 'HatebuNotifierVersion', {
      functionName: hatebuNotifierFunction.ref,
      description: 'Published when the function was created',
    });
    hatebuNotifierVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const feedsNotifierAlias = new lambda.CfnAlias(this, 'FeedsNotifierAlias', {
      name: 'live',
      functionName: feedsNotifierFunction.ref,
      functionVersion: feedsNotifierVersion.attrVersion,
    });

    const githubNotifierAlias = new lambda.CfnAlias(this, 'GithubNotifierAlias', {
      name: 'live',
      functionName: githubNotifierFunction.ref,
      functionVersion: githubNotifierVersion.attrVersion,
    });

    const hatebuNotifierAlias = new lambda.CfnAlias(this, 'HatebuNotifierAlias', {
      name: 'live',
      functionName: hatebuNotifierFunction.ref,
      functionVersion: hatebuNotifierVersion.attrVersion,
    });

    const feedsSubscriberRole = new iam.CfnRole(this, 'FeedsSubscriberRole', {
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
          policyName: 'feeds-subscriber',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'State',
                Effect: 'Allow',
                Action: [
                  'dynamodb:BatchGetItem',
                  'dynamodb:DeleteItem',
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.feedsStateTableArn!,
              },
              {
                Sid: 'Pending',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.feedsStateTableArn!}/index/pending`,
              },
              {
                Sid: 'Deliver',
                Effect: 'Allow',
                Action: 'lambda:InvokeFunction',
                Resource: feedsNotifierAlias.ref,
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: feedsSubscriberLogGroup.attrArn,
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

    const githubSubscriberRole = new iam.CfnRole(this, 'GithubSubscriberRole', {
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
          policyName: 'github-subscriber',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'State',
                Effect: 'Allow',
                Action: [
                  'dynamodb:BatchGetItem',
                  'dynamodb:DeleteItem',
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.githubStateTableArn!,
              },
              {
                Sid: 'Pending',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.githubStateTableArn!}/index/pending`,
              },
              {
                Sid: 'Deliver',
                Effect: 'Allow',
                Action: 'lambda:InvokeFunction',
                Resource: githubNotifierAlias.ref,
              },
              {
                Sid: 'Secrets',
                Effect: 'Allow',
                Action: 'ssm:GetParameters',
                Resource: `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.githubFeedUrlParameter!}`,
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: githubSubscriberLogGroup.attrArn,
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

    const hatebuSubscriberRole = new iam.CfnRole(this, 'HatebuSubscriberRole', {
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
          policyName: 'hatebu-subscriber',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'State',
                Effect: 'Allow',
                Action: [
                  'dynamodb:BatchGetItem',
                  'dynamodb:DeleteItem',
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.hatebuStateTableArn!,
              },
              {
                Sid: 'Pending',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.hatebuStateTableArn!}/index/pending`,
              },
              {
                Sid: 'Deliver',
                Effect: 'Allow',
                Action: 'lambda:InvokeFunction',
                Resource: hatebuNotifierAlias.ref,
              },
              {
                Sid: 'Secrets',
                Effect: 'Allow',
                Action: 'ssm:GetParameters',
                Resource: `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.hatebuFeedUrlParameter!}`,
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: hatebuSubscriberLogGroup.attrArn,
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

    const feedsSubscriberFunction = new lambda.CfnFunction(this, 'FeedsSubscriberFunction', {
      functionName: `feeds-subscriber${props.suffix!}`,
      description: 'Reads a feed and has each new entry delivered once',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 120,
      role: feedsSubscriberRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.feedsSubscriberCodeKey!,
      },
      loggingConfig: {
        logGroup: feedsSubscriberLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'STATE_TABLE_NAME': props.feedsStateTableRef!,
          'TARGET_FUNCTION_ARN': feedsNotifierAlias.ref,
          'FEED_SECRETS_PREFIX': `/ichido/${props.environment!}/feeds/`,
          'FIRST_RUN': props.feedFirstRun!,
          ADAPTIVE: props.feedAdaptive!,
          'ADAPTIVE_LONGEST_MINUTES': `${props.feedAdaptiveLongestMinutes!}`,
          'DEAD_AFTER': `${props.feedDeadAfter!}`,
          'GIVE_UP_DAYS': `${props.feedGiveUpDays!}`,
          'PARALLEL_DELIVERIES': `${props.feedParallelDeliveries!}`,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const githubSubscriberFunction = new lambda.CfnFunction(this, 'GithubSubscriberFunction', {
      functionName: `github-subscriber${props.suffix!}`,
      description: 'Reads GitHub\'s feed and has each new entry delivered once',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 120,
      role: githubSubscriberRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.githubSubscriberCodeKey!,
      },
      loggingConfig: {
        logGroup: githubSubscriberLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'STATE_TABLE_NAME': props.githubStateTableRef!,
          'TARGET_FUNCTION_ARN': githubNotifierAlias.ref,
          'FEED_URL_PARAMETER': props.githubFeedUrlParameter!,
          'FIRST_RUN': props.feedFirstRun!,
          'IGNORE_TITLE': props.githubIgnoreTitle!,
          'IGNORE_LINK': props.githubIgnoreLink!,
          'PERIOD_MINUTES': '5',
          ADAPTIVE: props.feedAdaptive!,
          'ADAPTIVE_LONGEST_MINUTES': `${props.feedAdaptiveLongestMinutes!}`,
          'DEAD_AFTER': `${props.feedDeadAfter!}`,
          'GIVE_UP_DAYS': `${props.feedGiveUpDays!}`,
          'PARALLEL_DELIVERIES': `${props.feedParallelDeliveries!}`,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const hatebuSubscriberFunction = new lambda.CfnFunction(this, 'HatebuSubscriberFunction', {
      functionName: `hatebu-subscriber${props.suffix!}`,
      description: 'Reads Hatena Bookmark\'s feed and has each new entry delivered once',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 256,
      timeout: 120,
      role: hatebuSubscriberRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.hatebuSubscriberCodeKey!,
      },
      loggingConfig: {
        logGroup: hatebuSubscriberLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'STATE_TABLE_NAME': props.hatebuStateTableRef!,
          'TARGET_FUNCTION_ARN': hatebuNotifierAlias.ref,
          'FEED_URL_PARAMETER': props.hatebuFeedUrlParameter!,
          'FIRST_RUN': props.feedFirstRun!,
          'IGNORE_TITLE': props.hatebuIgnoreTitle!,
          'IGNORE_LINK': props.hatebuIgnoreLink!,
          'PERIOD_MINUTES': '15',
          ADAPTIVE: props.feedAdaptive!,
          'ADAPTIVE_LONGEST_MINUTES': `${props.feedAdaptiveLongestMinutes!}`,
          'DEAD_AFTER': `${props.feedDeadAfter!}`,
          'GIVE_UP_DAYS': `${props.feedGiveUpDays!}`,
          'PARALLEL_DELIVERIES': `${props.feedParallelDeliveries!}`,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const feedsSubscriberVersion = new lambda.CfnVersion(this, 'FeedsSubscriberVersion', {
      functionName: feedsSubscriberFunction.ref,
      description: 'Published when the function was created',
    });
    feedsSubscriberVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const furtherFeedsErrorsAlarm = hasFurtherFeeds
      ? new cloudwatch.CfnAlarm(this, 'FurtherFeedsErrorsAlarm', {
          alarmName: `further-feeds-errors${props.suffix!}`,
          alarmDescription: 'Runs that read further feeds failed, left something for a person to look at, or did not happen, in three of the last four periods. Runbook docs/runbooks/further-feeds-errors.md',
          namespace: 'AWS/Lambda',
          metricName: 'Errors',
          dimensions: [
            {
              name: 'FunctionName',
              value: feedsSubscriberFunction.ref,
            },
            {
              name: 'Resource',
              value: `${feedsSubscriberFunction.ref}:live`,
            },
          ],
          statistic: 'Sum',
          period: 900,
          evaluationPeriods: 4,
          datapointsToAlarm: 3,
          comparisonOperator: 'GreaterThanOrEqualToThreshold',
          threshold: 1,
          actionsEnabled: furtherFeedsArePaused ? false : true,
          treatMissingData: 'breaching',
          alarmActions: [
            props.alarmTopicArn!,
          ],
          okActions: [
            props.alarmTopicArn!,
          ],
        })
      : undefined;
    if (furtherFeedsErrorsAlarm != null) {
    }

    const githubFeedSilenceAlarm = new cloudwatch.CfnAlarm(this, 'GithubFeedSilenceAlarm', {
      alarmName: `github-feed-silence${props.suffix!}`,
      alarmDescription: 'The function that reads GitHub\'s feed has not run for three periods. Runbook docs/runbooks/feed-silence.md',
      namespace: 'AWS/Lambda',
      metricName: 'Invocations',
      dimensions: [
        {
          name: 'FunctionName',
          value: githubSubscriberFunction.ref,
        },
        {
          name: 'Resource',
          value: `${githubSubscriberFunction.ref}:live`,
        },
      ],
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 3,
      datapointsToAlarm: 3,
      comparisonOperator: 'LessThanThreshold',
      threshold: 1,
      actionsEnabled: githubIsPaused ? false : true,
      treatMissingData: 'breaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const githubFeedSubscriberDurationAlarm = new cloudwatch.CfnAlarm(this, 'GithubFeedSubscriberDurationAlarm', {
      alarmName: `github-feed-subscriber-duration${props.suffix!}`,
      alarmDescription: 'Reading GitHub\'s feed and delivering its entries took more than 10 s on average, in two periods in a row. Runbook docs/runbooks/feed-subscriber-duration.md',
      namespace: 'AWS/Lambda',
      metricName: 'Duration',
      dimensions: [
        {
          name: 'FunctionName',
          value: githubSubscriberFunction.ref,
        },
        {
          name: 'Resource',
          value: `${githubSubscriberFunction.ref}:live`,
        },
      ],
      statistic: 'Average',
      period: 300,
      evaluationPeriods: 2,
      datapointsToAlarm: 2,
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 10000,
      actionsEnabled: githubIsPaused ? false : true,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const githubFeedSubscriberErrorsAlarm = new cloudwatch.CfnAlarm(this, 'GithubFeedSubscriberErrorsAlarm', {
      alarmName: `github-feed-subscriber-errors${props.suffix!}`,
      alarmDescription: 'The runs that read GitHub\'s feed failed, or left something for a person to look at, in three of the last four periods. Runbook docs/runbooks/feed-subscriber-errors.md',
      namespace: 'AWS/Lambda',
      metricName: 'Errors',
      dimensions: [
        {
          name: 'FunctionName',
          value: githubSubscriberFunction.ref,
        },
        {
          name: 'Resource',
          value: `${githubSubscriberFunction.ref}:live`,
        },
      ],
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 4,
      datapointsToAlarm: 3,
      comparisonOperator: 'GreaterThanOrEqualToThreshold',
      threshold: 1,
      actionsEnabled: githubIsPaused ? false : true,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const githubSubscriberVersion = new lambda.CfnVersion(this, 'GithubSubscriberVersion', {
      functionName: githubSubscriberFunction.ref,
      description: 'Published when the function was created',
    });
    githubSubscriberVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const hatebuFeedSilenceAlarm = new cloudwatch.CfnAlarm(this, 'HatebuFeedSilenceAlarm', {
      alarmName: `hatebu-feed-silence${props.suffix!}`,
      alarmDescription: 'The function that reads Hatena Bookmark\'s feed has not run for three periods. Runbook docs/runbooks/feed-silence.md',
      namespace: 'AWS/Lambda',
      metricName: 'Invocations',
      dimensions: [
        {
          name: 'FunctionName',
          value: hatebuSubscriberFunction.ref,
        },
        {
          name: 'Resource',
          value: `${hatebuSubscriberFunction.ref}:live`,
        },
      ],
      statistic: 'Sum',
      period: 900,
      evaluationPeriods: 3,
      datapointsToAlarm: 3,
      comparisonOperator: 'LessThanThreshold',
      threshold: 1,
      actionsEnabled: hatebuIsPaused ? false : true,
      treatMissingData: 'breaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const hatebuFeedSubscriberDurationAlarm = new cloudwatch.CfnAlarm(this, 'HatebuFeedSubscriberDurationAlarm', {
      alarmName: `hatebu-feed-subscriber-duration${props.suffix!}`,
      alarmDescription: 'Reading Hatena Bookmark\'s feed and delivering its entries took more than 20 s on average, in two periods in a row. Runbook docs/runbooks/feed-subscriber-duration.md',
      namespace: 'AWS/Lambda',
      metricName: 'Duration',
      dimensions: [
        {
          name: 'FunctionName',
          value: hatebuSubscriberFunction.ref,
        },
        {
          name: 'Resource',
          value: `${hatebuSubscriberFunction.ref}:live`,
        },
      ],
      statistic: 'Average',
      period: 900,
      evaluationPeriods: 2,
      datapointsToAlarm: 2,
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 20000,
      actionsEnabled: hatebuIsPaused ? false : true,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const hatebuFeedSubscriberErrorsAlarm = new cloudwatch.CfnAlarm(this, 'HatebuFeedSubscriberErrorsAlarm', {
      alarmName: `hatebu-feed-subscriber-errors${props.suffix!}`,
      alarmDescription: 'The runs that read Hatena Bookmark\'s feed failed, or left something for a person to look at, in three of the last four periods. Runbook docs/runbooks/feed-subscriber-errors.md',
      namespace: 'AWS/Lambda',
      metricName: 'Errors',
      dimensions: [
        {
          name: 'FunctionName',
          value: hatebuSubscriberFunction.ref,
        },
        {
          name: 'Resource',
          value: `${hatebuSubscriberFunction.ref}:live`,
        },
      ],
      statistic: 'Sum',
      period: 900,
      evaluationPeriods: 4,
      datapointsToAlarm: 3,
      comparisonOperator: 'GreaterThanOrEqualToThreshold',
      threshold: 1,
      actionsEnabled: hatebuIsPaused ? false : true,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const hatebuSubscriberVersion = new lambda.CfnVersion(this, 'HatebuSubscriberVersion', {
      functionName: hatebuSubscriberFunction.ref,
      description: 'Published when the function was created',
    });
    hatebuSubscriberVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const feedsSubscriberAlias = new lambda.CfnAlias(this, 'FeedsSubscriberAlias', {
      name: 'live',
      functionName: feedsSubscriberFunction.ref,
      functionVersion: feedsSubscriberVersion.attrVersion,
    });

    const githubSubscriberAlias = new lambda.CfnAlias(this, 'GithubSubscriberAlias', {
      name: 'live',
      functionName: githubSubscriberFunction.ref,
      functionVersion: githubSubscriberVersion.attrVersion,
    });

    const hatebuSubscriberAlias = new lambda.CfnAlias(this, 'HatebuSubscriberAlias', {
      name: 'live',
      functionName: hatebuSubscriberFunction.ref,
      functionVersion: hatebuSubscriberVersion.attrVersion,
    });

    const feedsSchedulerRole = hasFurtherFeeds
      ? new iam.CfnRole(this, 'FeedsSchedulerRole', {
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
              policyName: 'feeds-schedule',
              policyDocument: {
                Version: '2012-10-17',
                Statement: [
                  {
                    Sid: 'Run',
                    Effect: 'Allow',
                    Action: 'lambda:InvokeFunction',
                    Resource: feedsSubscriberAlias.ref,
                  },
                  {
                    Sid: 'Failures',
                    Effect: 'Allow',
                    Action: 'sqs:SendMessage',
                    Resource: props.feedsSubscriberFailuresArn!,
                  },
                ],
              },
            },
          ],
        })
      : undefined;
    if (feedsSchedulerRole != null) {
    }

    const feedsSubscriberInvokeConfig = new lambda.CfnEventInvokeConfig(this, 'FeedsSubscriberInvokeConfig', {
      functionName: feedsSubscriberFunction.ref,
      qualifier: 'live',
      maximumRetryAttempts: 0,
      maximumEventAgeInSeconds: 900,
    });
    feedsSubscriberInvokeConfig.addResourceDependency(feedsSubscriberAlias);

    const githubSchedulerRole = new iam.CfnRole(this, 'GithubSchedulerRole', {
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
          policyName: 'github-schedule',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Run',
                Effect: 'Allow',
                Action: 'lambda:InvokeFunction',
                Resource: githubSubscriberAlias.ref,
              },
              {
                Sid: 'Failures',
                Effect: 'Allow',
                Action: 'sqs:SendMessage',
                Resource: props.githubSubscriberFailuresArn!,
              },
            ],
          },
        },
      ],
    });

    const githubSubscriberInvokeConfig = new lambda.CfnEventInvokeConfig(this, 'GithubSubscriberInvokeConfig', {
      functionName: githubSubscriberFunction.ref,
      qualifier: 'live',
      maximumRetryAttempts: 0,
      maximumEventAgeInSeconds: 300,
    });
    githubSubscriberInvokeConfig.addResourceDependency(githubSubscriberAlias);

    const hatebuSchedulerRole = new iam.CfnRole(this, 'HatebuSchedulerRole', {
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
          policyName: 'hatebu-schedule',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Run',
                Effect: 'Allow',
                Action: 'lambda:InvokeFunction',
                Resource: hatebuSubscriberAlias.ref,
              },
              {
                Sid: 'Failures',
                Effect: 'Allow',
                Action: 'sqs:SendMessage',
                Resource: props.hatebuSubscriberFailuresArn!,
              },
            ],
          },
        },
      ],
    });

    const hatebuSubscriberInvokeConfig = new lambda.CfnEventInvokeConfig(this, 'HatebuSubscriberInvokeConfig', {
      functionName: hatebuSubscriberFunction.ref,
      qualifier: 'live',
      maximumRetryAttempts: 0,
      maximumEventAgeInSeconds: 900,
    });
    hatebuSubscriberInvokeConfig.addResourceDependency(hatebuSubscriberAlias);

    const githubSchedule = new scheduler.CfnSchedule(this, 'GithubSchedule', {
      name: props.githubScheduleName!,
      description: 'Reads GitHub\'s feed',
      scheduleExpression: 'rate(5 minutes)',
      flexibleTimeWindow: {
        mode: 'OFF',
      },
      state: props.githubScheduleState!,
      target: {
        arn: githubSubscriberAlias.ref,
        roleArn: githubSchedulerRole.attrArn,
        retryPolicy: {
          maximumRetryAttempts: 2,
          maximumEventAgeInSeconds: 300,
        },
        deadLetterConfig: {
          arn: props.githubSubscriberFailuresArn!,
        },
      },
    });

    const hatebuSchedule = new scheduler.CfnSchedule(this, 'HatebuSchedule', {
      name: props.hatebuScheduleName!,
      description: 'Reads Hatena Bookmark\'s feed',
      scheduleExpression: 'rate(15 minutes)',
      flexibleTimeWindow: {
        mode: 'OFF',
      },
      state: props.hatebuScheduleState!,
      target: {
        arn: hatebuSubscriberAlias.ref,
        roleArn: hatebuSchedulerRole.attrArn,
        retryPolicy: {
          maximumRetryAttempts: 2,
          maximumEventAgeInSeconds: 900,
        },
        deadLetterConfig: {
          arn: props.hatebuSubscriberFailuresArn!,
        },
      },
    });
  }
}
