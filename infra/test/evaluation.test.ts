// The cases that `make accept` sends to AppSync's EvaluateCode, sent to that of the local platform.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { AppSyncClient, EvaluateCodeCommand } from '@aws-sdk/client-appsync';
import { type EvaluationCase, evaluationCases, problemOf } from '../accept/evaluation.ts';
import { startPlatform } from '../accept/platform.ts';
import { infra } from '../template.ts';

const cases = evaluationCases();
/** The most that EvaluateCode takes. */
const MAX_CONTEXT = 28_000;

test('every resolver file has a case for each of its handlers', () => {
  const files = ['functions', 'resolvers'].flatMap((folder) => fs.readdirSync(path.join(infra, 'appsync', folder)).map((file) => `${folder}/${file}`));
  const handlers = (all: { file: string; function: string }[]) => [...new Set(all.map((one) => `${one.file} ${one.function}`))].sort();
  assert.deepEqual(handlers(cases), handlers(files.flatMap((file) => ['request', 'response'].map((name) => ({ file, function: name })))));
});

test('each handler evaluates as expected on the local platform', async () => {
  const platform = await startPlatform();
  try {
    const appsync = new AppSyncClient({ endpoint: platform.url, region: 'ap-northeast-1', credentials: { accessKeyId: 'local', secretAccessKey: 'local' } });
    for (const each of cases) {
      const context = JSON.stringify(each.context);
      assert.ok(context.length <= MAX_CONTEXT, `${each.file}: ${each.name}`);
      const code = fs.readFileSync(path.join(infra, 'appsync', each.file), 'utf8');
      const answer = await appsync.send(new EvaluateCodeCommand({ runtime: { name: 'APPSYNC_JS', runtimeVersion: '1.0.0' }, code, context, function: each.function }));
      assert.equal(problemOf(each, answer), undefined, `${each.file}: ${each.name}`);
    }
  } finally {
    await platform.stop();
  }
});

test('an answer that differs from what is expected is a problem', () => {
  const answered = (expected: EvaluationCase['expected'], answer: object) =>
    problemOf({ name: '', file: '', function: 'request', context: {}, expected }, { $metadata: {}, stash: '{"left":1}', ...answer });
  const result = { a: [1, { b: '*' }], c: null };
  assert.equal(answered({ result, stash: { left: 1 } }, { evaluationResult: '{"a":[1.0,{"b":7}]}' }), undefined);
  for (const wrong of ['{"a":[2,{"b":7}]}', '{"a":[1,{}]}', '{"a":[1,{"b":7}],"c":0}', '{"a":[1,{"b":7},3]}', '{"a":{"0":1,"1":{"b":7}}}', 'null']) {
    assert.match(String(answered({ result }, { evaluationResult: wrong })), /^the result is /, wrong);
  }
  assert.match(String(answered({ result: 1, stash: { left: 2 } }, { evaluationResult: '1' })), /^left in the stash is 1, not 2/);
  assert.match(String(answered({ error: 'no' }, { evaluationResult: '1' })), /^the error is undefined, not "no"/);
  assert.match(String(answered({ result: 1 }, { error: { message: 'no' } })), /^the error is "no"/);
  const codeErrors = [{ errorType: 'LINT_ERROR', value: 'no', location: { line: 3 } }];
  assert.equal(answered({ error: 'no' }, { error: { message: 'no', codeErrors } }), 'LINT_ERROR in line 3: no');
});
