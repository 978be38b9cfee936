// An environment and the values of its templates' parameters, as JSON: what `ichidoctl` compares a deployment with.
//
//   ENV=prod tsx infra/cli/describe.ts
import { schedules } from '../feeds.ts';
import { parameters } from '../service.ts';
import { readTemplate, templateNames } from '../template.ts';
import { sayJson } from '../terminal.ts';
import { described, environment, run } from './world.ts';

run(async () => {
  const env = environment();
  const values = templateNames().map((name) => {
    const all = Object.entries(parameters(readTemplate(name), env, { architecture: 'arm64' }, {}));
    // What is in files is compared by deploying, not by looking.
    return [name, Object.fromEntries(all.filter(([parameter]) => !parameter.endsWith('File')))];
  });
  // `schedules`: resources that belong to the template `feeds` and are not in its file. `secrets`: the names of those that must be there.
  sayJson({ environment: env, parameters: Object.fromEntries(values), schedules: schedules(env), secrets: described(env).secrets.map((s) => s.name) });
});
