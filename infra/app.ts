// The CDK app: the stacks of one environment.
//
//   -c env=prod                     which (or ENV)
//   -c binaries=target/lambda       where the built functions are; `placeholder` to synthesize without them
//   -c architecture=arm64           what they were built for
import * as cdk from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { environment } from './environments.ts';
import { addStacks } from './service.ts';

const app = new cdk.App();
const context = (key: string): string | undefined => app.node.tryGetContext(key);

const binaries = context('binaries') ?? 'target/lambda';
addStacks(app, environment(context('env') ?? process.env.ENV), {
  binaries: binaries === 'placeholder' ? undefined : binaries,
  architecture: (context('architecture') ?? 'arm64') as 'arm64' | 'x86_64',
});
cdk.Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
app.synth();
