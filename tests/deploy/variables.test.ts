// Each binary reads exactly the variables that its template sets, tried on the binary itself.
//
// A binary that finds a placeholder in a variable names every such variable and ends. So: give it a placeholder for every name
// that its crate, or its template, knows; what it names is what it reads.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { AMBIENT, functionBinaries, variablesReadBy } from '../../infra/rust.ts';
import { functionsOf, readTemplate, root, templateNames } from '../../infra/template.ts';
import { LOCAL_ONLY } from '../../infra/test/standards.ts';

const crates = new Map(functionBinaries().map((b) => [b.name, b.crate]));
const everywhere = variablesReadBy('function');

for (const { name, resource } of templateNames().flatMap((n) => functionsOf(readTemplate(n)))) {
  test(`${name} reads exactly the variables that are set for it`, () => {
    const set = Object.keys(resource.Properties?.Environment?.Variables ?? {}).filter((v) => !everywhere.has(v)).sort();
    const candidates = new Set([...set, ...variablesReadBy(crates.get(name)!)].filter((v) => !AMBIENT.test(v) && !everywhere.has(v)));
    const env: Record<string, string> = Object.fromEntries([...candidates].map((v) => [v, 'changeme']));
    const bootstrap = path.join(root, 'target', 'lambda-host', name, 'bootstrap');
    assert.ok(fs.existsSync(bootstrap), `${bootstrap} is missing: scripts/build-host`);
    const done = spawnSync(bootstrap, {
      encoding: 'utf8', timeout: 20_000,
      env: { ...env, AWS_REGION: 'ap-northeast-1', AWS_ENDPOINT_URL: 'http://127.0.0.1:9', AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x', AWS_EC2_METADATA_DISABLED: 'true', AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9', AWS_LAMBDA_FUNCTION_NAME: name },
    });
    assert.equal(done.status, 1, `it has to refuse to start:\n${done.stdout}${done.stderr}`);
    const said = `${done.stdout}${done.stderr}`;
    const read = [...candidates].filter((v) => new RegExp(`\\b${v} is (still a placeholder|missing|invalid)`).test(said)).sort();
    assert.deepEqual(read.filter((v) => !LOCAL_ONLY.test(v)), set, said);
  });
}
