// The CDK app: the stacks of one environment.
//
//   -c env=prod                     which one (or ENV)
//   -c binaries=target/lambda       where the built functions are; `placeholder` to synthesize without them
//   -c architecture=arm64           what they were built for
//   -c protected=STACK,STACK        the stacks that are protected against deletion now (`make deploy` asks CloudFormation)
//   NOTE=text                       is added to the description of every function, so that each is published again (make accept)
//   -c fail=service                 lets this stack fail at its end (FAIL=service make deploy)
import * as cdk from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { environment } from './environments.ts';
import { addStacks } from './service.ts';

const app = new cdk.App();
const context = (key: string): string | undefined => app.node.tryGetContext(key);

const binaries = context('binaries') ?? 'target/lambda';
const env = environment(context('env') ?? process.env.ENV);
addStacks(app, env, {
  binaries: binaries === 'placeholder' ? undefined : binaries,
  architecture: (context('architecture') ?? 'arm64') as 'arm64' | 'x86_64',
  protected: context('protected')?.split(','),
  note: process.env.NOTE,
  fail: context('fail') as 'data' | 'service' | undefined,
});
// The tests check every environment with cdk-nag. Here it stops a deployment to AWS that has a finding. It takes longer than everything else.
if (env.name !== 'local') cdk.Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
app.synth();
