// Where secrets are kept, whether they are there, and who may read them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { missing } from '../cli/stored.ts';
import { environments, type Environment } from '../environments.ts';
import { synthesize } from '../synthesize.ts';
import * as standards from './standards.ts';
import { command, withAws, type Call } from './aws.ts';
import { auditFresh, findings, ofType } from './synth.ts';

const MANAGED = '/aws/reference/secretsmanager/';
const KEY = 'arn:aws:kms:ap-northeast-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab';

/** Asks which of these are missing, of an AWS that answers like this. */
async function asked(names: string[], answers: (call: Call) => object): Promise<{ missing: string[]; calls: Call[] }> {
  let found: string[] = [];
  const calls = await withAws(answers, async (AWS_ENDPOINT_URL) => {
    const variables = { AWS_ENDPOINT_URL, AWS_REGION: 'ap-northeast-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
    Object.assign(process.env, variables);
    try {
      found = await missing(names);
    } finally {
      for (const name of Object.keys(variables)) delete process.env[name];
    }
  });
  return { missing: found, calls };
}

test('whether a parameter is there is asked of its description, page by page, at most 50 names at once', async () => {
  const names = Array.from({ length: 60 }, (_, i) => `/ichido/dev/app/secret-${i}`);
  const { missing, calls } = await asked(names, ({ body }) => {
    const wanted: string[] = body.ParameterFilters[0].Values;
    // SSM may answer with a page that is empty although there are more.
    if (body.NextToken === undefined) return { Parameters: [], NextToken: 'more' };
    return { Parameters: wanted.filter((name) => name !== '/ichido/dev/app/secret-55').map((Name) => ({ Name, Type: 'SecureString' })) };
  });
  assert.deepEqual(missing, ['/ichido/dev/app/secret-55']);
  assert.deepEqual(calls.map((c) => [c.target, c.body.ParameterFilters[0].Values.length]), [50, 50, 10, 10].map((n) => ['AmazonSSM.DescribeParameters', n]));
  for (const { body } of calls) assert.deepEqual([body.ParameterFilters[0].Key, body.ParameterFilters[0].Option], ['Name', 'Equals']);
});

test('a name under /aws/reference/secretsmanager/ is asked of Secrets Manager, and never for its value', async () => {
  const names = ['ichido/dev/there', 'ichido/dev/leaving', 'ichido/dev/nowhere'].map((name) => MANAGED + name);
  const { missing, calls } = await asked([...names, '/ichido/dev/plain'], ({ target, body }) => {
    if (target === 'AmazonSSM.DescribeParameters') return { Parameters: [{ Name: '/ichido/dev/plain' }] };
    if (body.SecretId === 'ichido/dev/there') return { Name: body.SecretId };
    if (body.SecretId === 'ichido/dev/leaving') return { Name: body.SecretId, DeletedDate: 1_800_000_000 };
    return { __type: 'ResourceNotFoundException', Message: "Secrets Manager can't find the specified secret." };
  });
  assert.deepEqual(missing, [`${MANAGED}ichido/dev/leaving`, `${MANAGED}ichido/dev/nowhere`], 'what is scheduled for deletion cannot be read any more');
  assert.deepEqual([...new Set(calls.map((c) => c.target))].sort(), ['AmazonSSM.DescribeParameters', 'secretsmanager.DescribeSecret']);
});

test('an answer that says nothing about a secret is an error, not a missing secret', async () => {
  const denied = () => ({ __type: 'AccessDeniedException', Message: 'no' });
  await assert.rejects(asked([`${MANAGED}x`], denied), { name: 'AccessDeniedException' });
  await assert.rejects(asked(['/ichido/dev/x'], denied), { name: 'AccessDeniedException' });
});

/** Rotates the tokens' keys, the only secret that grows, to a value of this many bytes. */
async function rotate(bytes: number) {
  const SECRET = '/ichido/dev/tokens/jwt-keys';
  let said: { code: number | null; out: string; err: string } | undefined;
  const calls = await withAws(
    ({ target, body }) => (target === 'AmazonSSM.PutParameter' ? { Version: 2, Tier: body.Value.length > 4096 ? 'Advanced' : 'Standard' } : { Parameters: [] }),
    async (url) => void (said = await command('secrets', url, { ENV: 'dev', SECRET }, `${'k'.repeat(bytes)}\n`)),
  );
  return { ...said!, puts: calls.filter((c) => c.target === 'AmazonSSM.PutParameter').map((c) => c.body) };
}

test('make secrets stores up to 8 KB, and says what more than 4 KB cost', async () => {
  const small = await rotate(4096);
  assert.equal(small.code, 0, small.err);
  assert.doesNotMatch(small.out, /advanced/);
  const large = await rotate(8192);
  assert.equal(large.code, 0, large.err);
  assert.match(large.out, /set +\/ichido\/dev\/tokens\/jwt-keys +\(more than 4 KB: an advanced parameter, \$0\.05 per month\)/);
  for (const [put] of [small.puts, large.puts]) {
    assert.equal(put.Type, 'SecureString');
    assert.equal(put.Tier, 'Intelligent-Tiering', 'standard as long as it fits; one that is advanced already can be replaced');
    assert.equal(put.KeyId, undefined, 'without a key of its own, SSM uses its own');
  }
});

test('make secrets refuses more than 8 KB before it asks AWS', async () => {
  const { code, err, puts } = await rotate(8193);
  assert.equal(code, 1);
  assert.match(err, /jwt-keys has 8193 bytes; SSM stores at most 8192\. Keep it in Secrets Manager/);
  assert.deepEqual(puts, []);
});

/** The statements that let a role decrypt, by role. */
function decrypting(environment: Environment) {
  const all = standards.statements(synthesize(environment).resources);
  return all.filter(({ where, statement }) => !where.startsWith('AlarmKey.') && [statement.Action].flat().some((a) => String(a).startsWith('kms:')));
}

test('with a key of its own, an environment lets each role that reads a secret decrypt with it through that service alone', () => {
  const environment = { ...environments.dev, secretsKey: KEY, parameters: { ...environments.dev.parameters, SlackBotTokenParameter: `${MANAGED}ichido/dev/slack-bot` } };
  const found = decrypting(environment);
  const readers = standards.statements(synthesize(environment).resources).filter(({ statement }) => [statement.Action].flat().includes('ssm:GetParameters'));
  assert.deepEqual(found.map(({ where }) => where).sort(), readers.map(({ where }) => where.replace(/\..*/, '.SecretsKey')).sort());
  assert.ok(found.length > 1);
  for (const { where, statement } of found) {
    const via = where.startsWith('SlackFilesRole.') ? 'secretsmanager' : 'ssm';
    assert.deepEqual(statement, {
      Sid: 'SecretsKey', Effect: 'Allow', Action: 'kms:Decrypt', Resource: KEY,
      Condition: { StringEquals: { 'kms:ViaService': [`${via}.ap-northeast-1.amazonaws.com`] } },
    });
  }
});

test('without a key of its own, no role may decrypt anything', () => {
  assert.deepEqual(decrypting(environments.prod), []);
});

test('with a key and a permissions boundary, an environment keeps every standard, and every role has the boundary', () => {
  const environment = { ...environments.dev, secretsKey: KEY, permissionsBoundary: 'ichido-boundary' };
  const synthesized = auditFresh(environment);
  for (const [name, check] of Object.entries(standards.all)) assert.deepEqual(check(synthesized), [], name);
  assert.deepEqual(findings(synthesized), []);
  for (const [id, { Properties: p }] of ofType(synthesized.resources, 'AWS::IAM::Role')) {
    assert.match(JSON.stringify(p.PermissionsBoundary), /:policy\/ichido-boundary"/, id);
  }
});
