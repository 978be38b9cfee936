// Each binary reads the variables that its template sets, tried on the binary itself.
//
// A binary that finds a placeholder in a variable names every such variable and ends. So: give it a placeholder for every name
// that its crate, or its template, knows; what it names is what it reads. Some are read only when another has a value: each gets
// one in turn.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { AMBIENT, functionBinaries, variablesReadBy } from '../../infra/rust.ts';
import { functionsOf, readTemplate, root, templateNames } from '../../infra/template.ts';
import { LOCAL_ONLY } from '../../infra/test/standards.ts';

const START_MS = 60_000;

const crates = new Map(functionBinaries().map((b) => [b.name, b.crate]));
const everywhere = variablesReadBy('function');
const functions = templateNames().flatMap((n) => functionsOf(readTemplate(n)));
const variablesOf = (f: (typeof functions)[number]) => Object.keys(f.resource.Properties?.Environment?.Variables ?? {}).filter((v) => !everywhere.has(v)).sort();

/** What a binary says when it is started with these variables: the names it objects to, and why. */
function objections(name: string, variables: Record<string, string>): Map<string, string> {
  const bootstrap = path.join(root, 'target', 'lambda-host', name, 'bootstrap');
  assert.ok(fs.existsSync(bootstrap), `${bootstrap} is missing: scripts/build-host`);
  const done = spawnSync(bootstrap, {
    encoding: 'utf8',
    timeout: START_MS,
    env: {
      ...variables, AWS_REGION: 'ap-northeast-1', AWS_ENDPOINT_URL: 'http://127.0.0.1:9', AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x',
      AWS_EC2_METADATA_DISABLED: 'true', AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9', AWS_LAMBDA_FUNCTION_NAME: name,
    },
  });
  const said = `${done.stdout}${done.stderr}`;
  assert.equal(done.status, 1, `it has to refuse to start:\n${said}`);
  return new Map([...said.matchAll(/\b([A-Z][A-Z0-9_]{2,}) is (still a placeholder|missing|invalid)/g)].map((m) => [m[1]!, m[2]!]));
}

for (const f of functions) {
  const set = variablesOf(f);
  const crate = crates.get(f.name)!;
  const placeholders = (names: Iterable<string>) => Object.fromEntries([...names].map((v) => [v, 'changeme']));

  test(`${f.name} reads every variable that is set for it, and none that no template of its crate sets`, () => {
    const candidates = new Set([...set, ...variablesReadBy(crate)].filter((v) => !AMBIENT.test(v) && !everywhere.has(v)));
    const read = new Set(objections(f.name, placeholders(candidates)).keys());
    for (const v of [...read].filter((v) => v.endsWith('_PARAMETER'))) {
      for (const found of objections(f.name, { ...placeholders(candidates), [v]: '/a/name' }).keys()) read.add(found);
    }
    assert.deepEqual(set.filter((v) => !read.has(v)), [], 'its template sets them; it never reads them');
    const siblings = new Set(functions.filter((g) => crates.get(g.name) === crate).flatMap(variablesOf));
    assert.deepEqual([...read].filter((v) => !siblings.has(v) && !LOCAL_ONLY.test(v)), [], 'it reads them; its template does not set them');
  });

  test(`${f.name} needs no variable that is not set for it`, () => {
    const missing = [...objections(f.name, placeholders(set))].filter(([v, why]) => why === 'missing' && !set.includes(v)).map(([v]) => v);
    assert.deepEqual(missing, []);
  });
}
