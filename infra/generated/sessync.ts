// Generated from infra/templates by `make generate`. Do not edit.
import * as cdk from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';

export interface SessyncProps {
  /**
   * The end of every name; empty in prod, -ENVIRONMENT elsewhere
   * @default ''
   */
  readonly suffix?: string;
  /**
   * Whether machines share their state
   * @default 'off'
   */
  readonly sessyncState?: string;
  /**
   * The table
   * @default 'sessync-state'
   */
  readonly sessyncStateTableName?: string;
}

/**
 * The state that developers' machines share
 */
export class Sessync extends Construct {
  public constructor(scope: Construct, id: string, props: SessyncProps = {}) {
    super(scope, id);

    // Applying default props
    props = {
      ...props,
      suffix: props.suffix ?? '',
      sessyncState: props.sessyncState ?? 'off',
      sessyncStateTableName: props.sessyncStateTableName ?? 'sessync-state',
    };

    // Conditions
    const sessyncStateIsOn = props.sessyncState! === 'on';

    // Resources
    const sessyncDeveloperPolicy = sessyncStateIsOn
      ? new iam.CfnManagedPolicy(this, 'SessyncDeveloperPolicy', {
          managedPolicyName: `sessync-developer${props.suffix!}`,
          description: 'What sessync on a developer\'s machine does with the shared state',
          policyDocument: {
            Version: '2012-10-17',
            Statement: [
              {
                Effect: 'Allow',
                Action: [
                  'dynamodb:GetItem',
                  'dynamodb:PutItem',
                  'dynamodb:UpdateItem',
                ],
                Resource: `arn:${cdk.Stack.of(this).partition}:dynamodb:${cdk.Stack.of(this).region}:${cdk.Stack.of(this).account}:table/${props.sessyncStateTableName!}`,
              },
            ],
          },
        })
      : undefined;
    if (sessyncDeveloperPolicy != null) {
    }
  }
}
