// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';

export interface TokensProps {
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
   * Whose tokens are accepted (the claim iss)
   * @default 'https://issuer.localhost'
   */
  readonly jwtIssuer?: string;
  /**
   * For whom they have to be (the claim aud)
   * @default 'tokens'
   */
  readonly jwtAudience?: string;
  /**
   * The parameter that holds the issuer's public keys as JWKS; during a rotation the old one and the new one
   * @default '/ichido/local/tokens/jwt-keys'
   */
  readonly jwtKeysParameter?: string;
  /**
   * What a new account begins with
   * @default '1000'
   */
  readonly initialGrant?: string;
  /**
   * The part of a transfer that the sender pays to the treasury beside it, such as 0.025; rounded down at the 8th place
   * @default '0'
   */
  readonly taxRate?: string;
  /**
   * The most that one transfer may move
   * @default '100000'
   */
  readonly transferLimit?: string;
  /**
   * The most that one sender may send on one UTC day
   * @default '1000000'
   */
  readonly dailyLimit?: string;
  /**
   * How long a key is remembered, from 24h to never
   * @default '7d'
   */
  readonly idempotencyWindow?: string;
  /**
   * The treasury as a party
   * @default 'did:ichido:treasury'
   */
  readonly treasuryDid?: string;
  /**
   * Over how many items the treasury's balance is spread, so that fees do not conflict
   * @default 8
   */
  readonly treasuryShards?: number;
  /**
   * The zip of tokens-api
   * @default 'tokens-api.zip'
   */
  readonly tokensApiCodeKey?: string;
  /**
   * TokensTableArn of tokens-data
   */
  readonly tokensTableArn: string;
  /**
   * TokensTableRef of tokens-data
   */
  readonly tokensTableRef: string;
}

/**
 * Transfers between accounts that move money once
 */
export class Tokens extends Construct {
  /**
   * The path after the address of the HTTP API
   */
  public readonly tokensUrlPath;

  public constructor(scope: Construct, id: string, props: TokensProps) {
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
      jwtIssuer: props.jwtIssuer ?? 'https://issuer.localhost',
      jwtAudience: props.jwtAudience ?? 'tokens',
      jwtKeysParameter: props.jwtKeysParameter ?? '/ichido/local/tokens/jwt-keys',
      initialGrant: props.initialGrant ?? '1000',
      taxRate: props.taxRate ?? '0',
      transferLimit: props.transferLimit ?? '100000',
      dailyLimit: props.dailyLimit ?? '1000000',
      idempotencyWindow: props.idempotencyWindow ?? '7d',
      treasuryDid: props.treasuryDid ?? 'did:ichido:treasury',
      treasuryShards: props.treasuryShards ?? 8,
      tokensApiCodeKey: props.tokensApiCodeKey ?? 'tokens-api.zip',
    };

    // Resources
    const tokensApiLogGroup = new logs.CfnLogGroup(this, 'TokensApiLogGroup', {
      logGroupName: `/aws/lambda/tokens-api${props.suffix!}`,
      retentionInDays: props.logRetentionDays!,
    });

    const tokensApiRole = new iam.CfnRole(this, 'TokensApiRole', {
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
          policyName: 'tokens-api',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Sid: 'Ledger',
                Effect: 'Allow',
                Action: [
                  'dynamodb:BatchGetItem',
                  'dynamodb:DescribeTable',
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:Query',
                  'dynamodb:UpdateItem',
                ],
                Resource: props.tokensTableArn!,
              },
              {
                Sid: 'Received',
                Effect: 'Allow',
                Action: 'dynamodb:Query',
                Resource: `${props.tokensTableArn!}/index/GSI1`,
              },
              {
                Sid: 'Keys',
                Effect: 'Allow',
                Action: 'ssm:GetParameters',
                Resource: `arn:${cdk.Stack.of(this).partition}:ssm:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:parameter${props.jwtKeysParameter!}`,
              },
              {
                Sid: 'Logs',
                Effect: 'Allow',
                Action: [
                  'logs:CreateLogStream',
                  'logs:PutLogEvents',
                ],
                Resource: tokensApiLogGroup.attrArn,
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

    const tokensApiFunction = new lambda.CfnFunction(this, 'TokensApiFunction', {
      functionName: `tokens-api${props.suffix!}`,
      description: 'Moves money once per idempotency key',
      runtime: 'provided.al2023',
      handler: 'bootstrap',
      architectures: [
        props.architecture!,
      ],
      memorySize: 512,
      timeout: 12,
      role: tokensApiRole.attrArn,
      code: {
        s3Bucket: props.codeBucket!,
        s3Key: props.tokensApiCodeKey!,
      },
      loggingConfig: {
        logGroup: tokensApiLogGroup.ref,
      },
      tracingConfig: {
        mode: props.tracingMode!,
      },
      environment: {
        variables: {
          'TOKENS_TABLE_NAME': props.tokensTableRef!,
          'JWT_ISSUER': props.jwtIssuer!,
          'JWT_AUDIENCE': props.jwtAudience!,
          'JWT_KEYS_PARAMETER': props.jwtKeysParameter!,
          'INITIAL_GRANT': props.initialGrant!,
          'TAX_RATE': props.taxRate!,
          'TRANSFER_LIMIT': props.transferLimit!,
          'DAILY_LIMIT': props.dailyLimit!,
          'IDEMPOTENCY_WINDOW': props.idempotencyWindow!,
          'TREASURY_DID': props.treasuryDid!,
          'TREASURY_SHARDS': `${props.treasuryShards!}`,
          'LOG_LEVEL': props.logLevel!,
        },
      },
    });

    const tokensApiErrorsAlarm = new cloudwatch.CfnAlarm(this, 'TokensApiErrorsAlarm', {
      alarmName: `tokens-api-errors${props.suffix!}`,
      alarmDescription: 'The token API keeps answering with 500. Runbook docs/runbooks/tokens-api-errors.md',
      namespace: 'Ichido',
      metricName: 'Failures',
      dimensions: [
        {
          name: 'FunctionName',
          value: tokensApiFunction.ref,
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

    const tokensApiLatencyAlarm = new cloudwatch.CfnAlarm(this, 'TokensApiLatencyAlarm', {
      alarmName: `tokens-api-latency${props.suffix!}`,
      alarmDescription: 'One in twenty requests to the token API takes more than 2 s. Runbook docs/runbooks/tokens-api-latency.md',
      namespace: 'AWS/Lambda',
      metricName: 'Duration',
      dimensions: [
        {
          name: 'FunctionName',
          value: tokensApiFunction.ref,
        },
        {
          name: 'Resource',
          value: `${tokensApiFunction.ref}:live`,
        },
      ],
      extendedStatistic: 'p95',
      period: 300,
      evaluationPeriods: 3,
      datapointsToAlarm: 3,
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 2000,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const tokensApiVersion = new lambda.CfnVersion(this, 'TokensApiVersion', {
      functionName: tokensApiFunction.ref,
      description: 'Published when the function was created',
    });
    tokensApiVersion.cfnOptions.deletionPolicy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;

    const tokensConflictsAlarm = new cloudwatch.CfnAlarm(this, 'TokensConflictsAlarm', {
      alarmName: `tokens-conflicts${props.suffix!}`,
      alarmDescription: 'Transfers keep conflicting with each other at one account and have to be repeated. Runbook docs/runbooks/tokens-conflicts.md',
      namespace: 'Ichido',
      metricName: 'TransferConflicts',
      dimensions: [
        {
          name: 'FunctionName',
          value: tokensApiFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 60,
      evaluationPeriods: 5,
      datapointsToAlarm: 3,
      comparisonOperator: 'GreaterThanOrEqualToThreshold',
      threshold: 100,
      treatMissingData: 'notBreaching',
      alarmActions: [
        props.alarmTopicArn!,
      ],
      okActions: [
        props.alarmTopicArn!,
      ],
    });

    const tokensUnresolvedAlarm = new cloudwatch.CfnAlarm(this, 'TokensUnresolvedAlarm', {
      alarmName: `tokens-unresolved${props.suffix!}`,
      alarmDescription: 'The store gives no clear answer about transfers in time, so clients get a 503 and must repeat them. Runbook docs/runbooks/tokens-unresolved.md',
      namespace: 'Ichido',
      metricName: 'TransfersUnresolved',
      dimensions: [
        {
          name: 'FunctionName',
          value: tokensApiFunction.ref,
        },
      ],
      statistic: 'Sum',
      period: 60,
      evaluationPeriods: 5,
      datapointsToAlarm: 3,
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

    const tokensApiAlias = new lambda.CfnAlias(this, 'TokensApiAlias', {
      name: 'live',
      functionName: tokensApiFunction.ref,
      functionVersion: tokensApiVersion.attrVersion,
    });

    const tokensApiIntegration = new apigatewayv2.CfnIntegration(this, 'TokensApiIntegration', {
      apiId: props.httpApiId!,
      integrationType: 'AWS_PROXY',
      integrationUri: tokensApiAlias.ref,
      payloadFormatVersion: '2.0',
      timeoutInMillis: 12500,
    });

    const tokensApiPermission = new lambda.CfnPermission(this, 'TokensApiPermission', {
      action: 'lambda:InvokeFunction',
      functionName: tokensApiAlias.ref,
      principal: 'apigateway.amazonaws.com',
      sourceArn: `arn:${cdk.Stack.of(this).partition}:execute-api:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:${props.httpApiId!}/*/*/tokens/*`,
    });

    const tokensAccountsRoute = new apigatewayv2.CfnRoute(this, 'TokensAccountsRoute', {
      apiId: props.httpApiId!,
      routeKey: 'POST /tokens/accounts',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensBalanceRoute = new apigatewayv2.CfnRoute(this, 'TokensBalanceRoute', {
      apiId: props.httpApiId!,
      routeKey: 'GET /tokens/balance/{did}',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensFreezeRoute = new apigatewayv2.CfnRoute(this, 'TokensFreezeRoute', {
      apiId: props.httpApiId!,
      routeKey: 'POST /tokens/accounts/{did}/freeze',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensOpenApiRoute = new apigatewayv2.CfnRoute(this, 'TokensOpenApiRoute', {
      apiId: props.httpApiId!,
      routeKey: 'GET /tokens/openapi.json',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensOtherRoute = new apigatewayv2.CfnRoute(this, 'TokensOtherRoute', {
      apiId: props.httpApiId!,
      routeKey: 'ANY /tokens/{proxy+}',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensReceivedRoute = new apigatewayv2.CfnRoute(this, 'TokensReceivedRoute', {
      apiId: props.httpApiId!,
      routeKey: 'GET /tokens/transactions/received/{did}',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensReversalsRoute = new apigatewayv2.CfnRoute(this, 'TokensReversalsRoute', {
      apiId: props.httpApiId!,
      routeKey: 'POST /tokens/reversals',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensSentRoute = new apigatewayv2.CfnRoute(this, 'TokensSentRoute', {
      apiId: props.httpApiId!,
      routeKey: 'GET /tokens/transactions/{did}',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensStatementRoute = new apigatewayv2.CfnRoute(this, 'TokensStatementRoute', {
      apiId: props.httpApiId!,
      routeKey: 'GET /tokens/statement/{did}',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensTransferRoute = new apigatewayv2.CfnRoute(this, 'TokensTransferRoute', {
      apiId: props.httpApiId!,
      routeKey: 'POST /tokens/transfer',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    const tokensUnfreezeRoute = new apigatewayv2.CfnRoute(this, 'TokensUnfreezeRoute', {
      apiId: props.httpApiId!,
      routeKey: 'POST /tokens/accounts/{did}/unfreeze',
      authorizationType: 'NONE',
      target: `integrations/${tokensApiIntegration.ref}`,
    });

    // Outputs
    this.tokensUrlPath = '/tokens';
    new cdk.CfnOutput(this, 'CfnOutputTokensUrlPath', {
      key: 'TokensUrlPath',
      description: 'The path after the address of the HTTP API',
      value: this.tokensUrlPath!.toString(),
    });
  }
}
