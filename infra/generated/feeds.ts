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
   * The zip in the bucket
   * @default 'github-subscriber.zip'
   */
  readonly githubSubscriberCodeKey?: string;
  /**
   * A digest of code and configuration; a change publishes a version
   * @default 'initial'
   */
  readonly githubSubscriberRevision?: string;
  /**
   * The version that is live now; empty the first time
   * @default ''
   */
  readonly githubSubscriberLive?: string;
  /**
   * The zip in the bucket
   * @default 'github-notifier.zip'
   */
  readonly githubNotifierCodeKey?: string;
  /**
   * A digest of code and configuration; a change publishes a version
   * @default 'initial'
   */
  readonly githubNotifierRevision?: string;
  /**
   * The version that is live now; empty the first time
   * @default ''
   */
  readonly githubNotifierLive?: string;
  /**
   * The zip in the bucket
   * @default 'hatebu-subscriber.zip'
   */
  readonly hatebuSubscriberCodeKey?: string;
  /**
   * A digest of code and configuration; a change publishes a version
   * @default 'initial'
   */
  readonly hatebuSubscriberRevision?: string;
  /**
   * The version that is live now; empty the first time
   * @default ''
   */
  readonly hatebuSubscriberLive?: string;
  /**
   * The zip in the bucket
   * @default 'hatebu-notifier.zip'
   */
  readonly hatebuNotifierCodeKey?: string;
  /**
   * A digest of code and configuration; a change publishes a version
   * @default 'initial'
   */
  readonly hatebuNotifierRevision?: string;
  /**
   * The version that is live now; empty the first time
   * @default ''
   */
  readonly hatebuNotifierLive?: string;
  /**
   * GithubStateTableArn of feeds-data
   */
  readonly githubStateTableArn: string;
  /**
   * GithubSubscriberFailuresArn of feeds-data
   */
  readonly githubSubscriberFailuresArn: string;
  /**
   * GithubStateTableRef of feeds-data
   */
  readonly githubStateTableRef: string;
  /**
   * HatebuStateTableArn of feeds-data
   */
  readonly hatebuStateTableArn: string;
  /**
   * HatebuSubscriberFailuresArn of feeds-data
   */
  readonly hatebuSubscriberFailuresArn: string;
  /**
   * HatebuStateTableRef of feeds-data
   */
  readonly hatebuStateTableRef: string;
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
      githubSubscriberCodeKey: props.githubSubscriberCodeKey ?? 'github-subscriber.zip',
      githubSubscriberRevision: props.githubSubscriberRevision ?? 'initial',
      githubSubscriberLive: props.githubSubscriberLive ?? '',
      githubNotifierCodeKey: props.githubNotifierCodeKey ?? 'github-notifier.zip',
      githubNotifierRevision: props.githubNotifierRevision ?? 'initial',
      githubNotifierLive: props.githubNotifierLive ?? '',
      hatebuSubscriberCodeKey: props.hatebuSubscriberCodeKey ?? 'hatebu-subscriber.zip',
      hatebuSubscriberRevision: props.hatebuSubscriberRevision ?? 'initial',
      hatebuSubscriberLive: props.hatebuSubscriberLive ?? '',
      hatebuNotifierCodeKey: props.hatebuNotifierCodeKey ?? 'hatebu-notifier.zip',
      hatebuNotifierRevision: props.hatebuNotifierRevision ?? 'initial',
      hatebuNotifierLive: props.hatebuNotifierLive ?? '',
    };

    // Conditions
    const githubNotifierIsNew = props.githubNotifierLive! === '';
    const githubSubscriberIsNew = props.githubSubscriberLive! === '';
    const hatebuNotifierIsNew = props.hatebuNotifierLive! === '';
    const hatebuSubscriberIsNew = props.hatebuSubscriberLive! === '';

    // Resources
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

    const githubNotifierVersion = new lambda.CfnVersion(this, 'GithubNotifierVersion', {
      functionName: githubNotifierFunction.ref,
      description: props.githubNotifierRevision!,
    });
    githubNotifierVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN;

    const hatebuNotifierVersion = new lambda.CfnVersion(this, 'HatebuNotifierVersion', {
      functionName: hatebuNotifierFunction.ref,
      description: props.hatebuNotifierRevision!,
    });
    hatebuNotifierVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN;

    const githubNotifierAlias = new lambda.CfnAlias(this, 'GithubNotifierAlias', {
      name: 'live',
      functionName: githubNotifierFunction.ref,
      functionVersion: githubNotifierIsNew ? githubNotifierVersion.attrVersion : props.githubNotifierLive!,
    });

    const hatebuNotifierAlias = new lambda.CfnAlias(this, 'HatebuNotifierAlias', {
      name: 'live',
      functionName: hatebuNotifierFunction.ref,
      functionVersion: hatebuNotifierIsNew ? hatebuNotifierVersion.attrVersion : props.hatebuNotifierLive!,
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
                Sid: 'Failures',
                Effect: 'Allow',
                Action: 'sqs:SendMessage',
                Resource: props.githubSubscriberFailuresArn!,
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
                Sid: 'Failures',
                Effect: 'Allow',
                Action: 'sqs:SendMessage',
                Resource: props.hatebuSubscriberFailuresArn!,
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

    const githubFeedDeadLettersAlarm = new cloudwatch.CfnAlarm(this, 'GithubFeedDeadLettersAlarm', {
      alarmName: `github-feed-dead-letters${props.suffix!}`,
      alarmDescription: 'Deliveries of GitHub\'s entries were given up on; somebody has to send them again. Runbook docs/runbooks/feed-dead-letters.md',
      namespace: 'Ichido',
      metricName: 'DeadLetters',
      dimensions: [
        {
          name: 'FunctionName',
          value: githubSubscriberFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 1,
      datapointsToAlarm: 1,
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

    const githubFeedGapAlarm = new cloudwatch.CfnAlarm(this, 'GithubFeedGapAlarm', {
      alarmName: `github-feed-gap${props.suffix!}`,
      alarmDescription: 'No entry of GitHub\'s feed was known, so some may have been missed between two reads. Runbook docs/runbooks/feed-gap.md',
      namespace: 'Ichido',
      metricName: 'FeedGaps',
      dimensions: [
        {
          name: 'FunctionName',
          value: githubSubscriberFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 1,
      datapointsToAlarm: 1,
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

    const githubFeedSilenceAlarm = new cloudwatch.CfnAlarm(this, 'GithubFeedSilenceAlarm', {
      alarmName: `github-feed-silence${props.suffix!}`,
      alarmDescription: 'GitHub\'s feed has not been read for three periods. Runbook docs/runbooks/feed-silence.md',
      namespace: 'Ichido',
      metricName: 'FeedReads',
      dimensions: [
        {
          name: 'FunctionName',
          value: githubSubscriberFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 300,
      evaluationPeriods: 3,
      datapointsToAlarm: 3,
      comparisonOperator: 'LessThanThreshold',
      threshold: 1,
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
      alarmDescription: 'The function that reads GitHub\'s feed failed in three of the last four periods. Runbook docs/runbooks/feed-subscriber-errors.md',
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
      description: props.githubSubscriberRevision!,
    });
    githubSubscriberVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN;

    const hatebuFeedDeadLettersAlarm = new cloudwatch.CfnAlarm(this, 'HatebuFeedDeadLettersAlarm', {
      alarmName: `hatebu-feed-dead-letters${props.suffix!}`,
      alarmDescription: 'Deliveries of Hatena Bookmark\'s entries were given up on; somebody has to send them again. Runbook docs/runbooks/feed-dead-letters.md',
      namespace: 'Ichido',
      metricName: 'DeadLetters',
      dimensions: [
        {
          name: 'FunctionName',
          value: hatebuSubscriberFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 900,
      evaluationPeriods: 1,
      datapointsToAlarm: 1,
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

    const hatebuFeedGapAlarm = new cloudwatch.CfnAlarm(this, 'HatebuFeedGapAlarm', {
      alarmName: `hatebu-feed-gap${props.suffix!}`,
      alarmDescription: 'No entry of Hatena Bookmark\'s feed was known, so some may have been missed between two reads. Runbook docs/runbooks/feed-gap.md',
      namespace: 'Ichido',
      metricName: 'FeedGaps',
      dimensions: [
        {
          name: 'FunctionName',
          value: hatebuSubscriberFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 900,
      evaluationPeriods: 1,
      datapointsToAlarm: 1,
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

    const hatebuFeedSilenceAlarm = new cloudwatch.CfnAlarm(this, 'HatebuFeedSilenceAlarm', {
      alarmName: `hatebu-feed-silence${props.suffix!}`,
      alarmDescription: 'Hatena Bookmark\'s feed has not been read for three periods. Runbook docs/runbooks/feed-silence.md',
      namespace: 'Ichido',
      metricName: 'FeedReads',
      dimensions: [
        {
          name: 'FunctionName',
          value: hatebuSubscriberFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 900,
      evaluationPeriods: 3,
      datapointsToAlarm: 3,
      comparisonOperator: 'LessThanThreshold',
      threshold: 1,
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
      alarmDescription: 'The function that reads Hatena Bookmark\'s feed failed in three of the last four periods. Runbook docs/runbooks/feed-subscriber-errors.md',
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
      description: props.hatebuSubscriberRevision!,
    });
    hatebuSubscriberVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN;

    const githubSubscriberAlias = new lambda.CfnAlias(this, 'GithubSubscriberAlias', {
      name: 'live',
      functionName: githubSubscriberFunction.ref,
      functionVersion: githubSubscriberIsNew ? githubSubscriberVersion.attrVersion : props.githubSubscriberLive!,
    });

    const hatebuSubscriberAlias = new lambda.CfnAlias(this, 'HatebuSubscriberAlias', {
      name: 'live',
      functionName: hatebuSubscriberFunction.ref,
      functionVersion: hatebuSubscriberIsNew ? hatebuSubscriberVersion.attrVersion : props.hatebuSubscriberLive!,
    });

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
      destinationConfig: {
        onFailure: {
          destination: props.githubSubscriberFailuresArn!,
        },
      },
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
      destinationConfig: {
        onFailure: {
          destination: props.hatebuSubscriberFailuresArn!,
        },
      },
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
      },
    });
  }
}
