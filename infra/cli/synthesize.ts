// Every environment, synthesized with placeholders for binaries: target/synthesized/ENV/STACK.template.json, for tools that read templates.
import fs from 'node:fs';
import path from 'node:path';
import * as cdk from 'aws-cdk-lib';
import { environments } from '../environments.ts';
import { addStacks } from '../service.ts';
import { root } from '../template.ts';

for (const environment of Object.values(environments)) {
  const outdir = path.join(root, 'target', 'synthesized', environment.name);
  fs.rmSync(outdir, { recursive: true, force: true });
  const app = new cdk.App({ outdir });
  addStacks(app, environment, { architecture: 'arm64' });
  app.synth();
}
