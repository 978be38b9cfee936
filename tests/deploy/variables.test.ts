// Each binary reads the variables that it declares and that its template sets. The binary itself is tried.
//
// A binary that finds a placeholder in a variable names every such variable and ends. So this test sets every variable that
// the functions of the crate declare, or that the template sets, to a placeholder: what the binary names is what it reads.
// Some variables are read only when another one has a value, so each of those gets a value in turn.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { common, declared } from '../../infra/functions.ts';
import { functionsOf, readTemplate, root, templateNames } from '../../infra/template.ts';
import { LOCAL_ONLY, NOT_CONFIGURED } from '../../infra/test/standards.ts';

const START_MS = 60_000;

const functions = templateNames().flatMap((n) => functionsOf(readTemplate(n)));
const variablesOf = (f: (typeof functions)[number]) => Object.keys(f.resource.Properties?.Environment?.Variables ?? {}).filter((v) => !common.has(v)).sort();

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
  const { crate, variables } = declared.find((d) => d.name === f.name)!;
  const placeholders = (names: Iterable<string>) => Object.fromEntries([...names].map((v) => [v, 'changeme']));

  test(`${f.name} reads every variable that it declares or that is set for it, and no other`, () => {
    const ofCrate = declared.filter((d) => d.crate === crate).flatMap((d) => d.variables);
    const candidates = new Set([...set, ...ofCrate]);
    const read = new Set(objections(f.name, placeholders(candidates)).keys());
    for (const v of [...read].filter((v) => v.endsWith('_PARAMETER'))) {
      for (const found of objections(f.name, { ...placeholders(candidates), [v]: '/a/name' }).keys()) read.add(found);
    }
    // An effect of one's own (infra/slack-files-crate) reads its variables before those of slack-files.
    const own = Object.fromEntries(set.filter((v) => !ofCrate.includes(v)).map((v) => [v, 'https://example.invalid']));
    if (Object.keys(own).length > 0) {
      for (const found of objections(f.name, { ...placeholders(candidates), ...own }).keys()) read.add(found);
    }
    assert.deepEqual(set.filter((v) => !read.has(v)), [], 'its template sets them; it never reads them');
    assert.deepEqual(variables.filter((v) => !read.has(v)), [], 'it declares them; it never reads them');
    const left = NOT_CONFIGURED.get(f.name) ?? [];
    assert.deepEqual([...read].filter((v) => !set.includes(v) && !left.includes(v) && !LOCAL_ONLY.test(v)), [], 'it reads them; its template does not set them');
  });

  test(`${f.name} needs no variable that is not set for it`, () => {
    const missing = [...objections(f.name, placeholders(set))].filter(([v, why]) => why === 'missing' && !set.includes(v)).map(([v]) => v);
    assert.deepEqual(missing, []);
  });
}
