// Every environment's templates, synthesized with placeholders for binaries, for tools that read templates: target/templates/ENV/STACK.template.json.
import fs from 'node:fs';
import path from 'node:path';
import { environments } from '../environments.ts';
import { synthesize } from '../synthesize.ts';
import { root } from '../template.ts';

for (const environment of Object.values(environments)) {
  const { stacks } = synthesize(environment);
  const dir = path.join(root, 'target', 'templates', environment.name);
  fs.mkdirSync(dir, { recursive: true });
  for (const [stack, { template }] of Object.entries(stacks)) fs.writeFileSync(path.join(dir, `${stack}.template.json`), JSON.stringify(template, null, 1));
}
