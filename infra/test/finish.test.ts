// What follows a successful deployment: versions are published and recorded, and what is to be kept is protected.
import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { protect } from '../cli/protect.ts';
import { publish } from '../cli/publish.ts';
import { described } from '../cli/world.ts';
import { environments, type Environment } from '../environments.ts';
import { complete } from './synth.ts';

const { dev, staging, prod } = environments;

/** An AWS that records what is changed. Tests replace its answers. */
class Aws {
  /** Every call that is no reading, in order. */
  changes: string[] = [];
  stack = { status: 'UPDATE_COMPLETE', updated: '2026-11-17T04:00:00.000Z', protection: false };
  tableProtection = false;
  /** What the alias `deployed` of each function names. */
  deployed = new Map<string, string>();
  /** What that alias says about itself. */
  descriptions = new Map<string, string>();
  /** The digest of the code of every function now, and of every published version. */
  code = 'sha-1';
  published = new Map<string, string>();
  /** What PublishVersion returns. */
  version = '7';
  /** Functions whose update is still in progress the next time that somebody asks. */
  updating = new Set<string>();
  /** Functions that were published before somebody saw that their update is over. */
  tooEarly: string[] = [];
  onPublish = () => {};
  private settled = new Set<string>();

  answer(method: string, path: string, target: string, body: string): [number, unknown] {
    const [, fn, what, rest] = /^\/2015-03-31\/functions\/([^/]+)\/([^?]+)(.*)$/.exec(path) ?? [];
    if (fn !== undefined) return this.lambda(method, fn, what!, rest!, JSON.parse(body || '{}'));
    if (target.startsWith('DynamoDB_')) {
      const { TableName, DeletionProtectionEnabled } = JSON.parse(body);
      if (target.endsWith('.UpdateTable')) this.changes.push(`table ${TableName} ${DeletionProtectionEnabled}`);
      return [200, { Table: { TableName, DeletionProtectionEnabled: this.tableProtection } }];
    }
    const query = new URLSearchParams(body);
    if (query.get('Action') === 'UpdateTerminationProtection') this.changes.push(`stack ${query.get('StackName')} ${query.get('EnableTerminationProtection')}`);
    const { status, updated, protection } = this.stack;
    return [200, `<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>s</StackName><CreationTime>2026-11-01T00:00:00.000Z</CreationTime>
      <LastUpdatedTime>${updated}</LastUpdatedTime><StackStatus>${status}</StackStatus><EnableTerminationProtection>${protection}</EnableTerminationProtection>
      </member></Stacks></DescribeStacksResult></DescribeStacksResponse>`];
  }

  private lambda(method: string, fn: string, what: string, rest: string, body: any): [number, unknown] {
    const deployed = this.deployed.get(fn);
    if (what === 'configuration') {
      if (!this.updating.delete(fn)) this.settled.add(fn);
      const version = /Qualifier=(\d+)/.exec(rest)?.[1];
      return [200, { RevisionId: 'r1', CodeSha256: version === undefined ? this.code : this.published.get(version), LastUpdateStatus: this.settled.has(fn) ? 'Successful' : 'InProgress' }];
    }
    if (what === 'versions') {
      if (!this.settled.has(fn)) this.tooEarly.push(fn);
      this.onPublish();
      assert.deepEqual([body.RevisionId, body.CodeSha256], ['r1', this.code], 'only what was read is published');
      this.published.set(this.version, this.code);
      return [201, { Version: this.version }];
    }
    if (method === 'GET') return deployed === undefined ? [404, { Type: 'User', __type: 'ResourceNotFoundException' }] : [200, { FunctionVersion: deployed, Description: this.descriptions.get(fn), RevisionId: `of ${deployed}` }];
    if (method === 'PUT' && body.RevisionId !== `of ${deployed}`) return [412, { __type: 'PreconditionFailedException' }];
    this.changes.push(`${fn} deployed ${body.FunctionVersion}`);
    this.deployed.set(fn, body.FunctionVersion);
    this.descriptions.set(fn, body.Description);
    return [200, {}];
  }
}

/** Runs something against such an AWS. */
async function at(aws: Aws, work: () => Promise<unknown>) {
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (d) => (body += d));
    request.on('end', () => {
      const [status, answer] = aws.answer(request.method!, request.url!, String(request.headers['x-amz-target'] ?? ''), body);
      const type = (answer as { __type?: string }).__type;
      response.writeHead(status, type ? { 'x-amzn-errortype': type } : {}).end(typeof answer === 'string' ? answer : JSON.stringify(answer));
    });
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const before = { ...process.env };
  Object.assign(process.env, { AWS_ENDPOINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, AWS_REGION: 'ap-northeast-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' });
  try {
    return await work();
  } finally {
    process.env = before;
    server.closeAllConnections();
    server.close();
  }
}

/** The code that CloudFormation deployed. */
const codes = (S3Key = 'a.zip') => new Map(functions(dev).map((fn) => [fn, { S3Bucket: 'assets', S3Key }]));
const functions = (env: Environment) => described(env).functions.map((f) => f.deployed);

test('what was published is recorded for every function, and recorded once', async () => {
  const aws = new Aws();
  await at(aws, () => publish(dev, codes()));
  assert.deepEqual(aws.changes.sort(), functions(dev).map((fn) => `${fn} deployed 7`).sort());
  aws.changes = [];
  await at(aws, () => publish(dev, codes()));
  assert.deepEqual(aws.changes, [], 'Lambda returned the same versions');
  aws.version = '8';
  await at(aws, () => publish(dev, codes()));
  assert.deepEqual(new Set(aws.deployed.values()), new Set(['8']));
});

test('a version is published when Lambda has finished the update of the function', async () => {
  const aws = new Aws();
  aws.updating = new Set(functions(dev));
  await at(aws, () => publish(dev, codes()));
  assert.deepEqual([aws.updating.size, aws.tooEarly], [0, []]);
});

test('what another deployment is changing is not recorded', async () => {
  for (const other of [{ status: 'UPDATE_IN_PROGRESS' }, { updated: '2026-11-17T04:00:01.000Z' }]) {
    const aws = new Aws();
    aws.onPublish = () => Object.assign(aws.stack, other);
    await assert.rejects(at(aws, () => publish(dev, codes())), /Another deployment of dev is in progress/);
    assert.deepEqual(aws.changes, [], JSON.stringify(other));
  }
});

test('code that somebody put into a function by hand is not published', async () => {
  const aws = new Aws();
  await at(aws, () => publish(dev, codes()));
  aws.changes = [];
  aws.code = 'by hand';
  aws.version = '8';
  await assert.rejects(at(aws, () => publish(dev, codes())), /is not what the last deployment put there[^]*update-function-code --function-name .* --s3-bucket assets --s3-key a\.zip/);
  assert.deepEqual([aws.changes, aws.published.has('8')], [[], false]);
  aws.code = 'sha-2';
  await at(aws, () => publish(dev, codes('b.zip')));
  assert.deepEqual(new Set(aws.deployed.values()), new Set(['8']), 'other code that CloudFormation deployed is published');
});

test('what Lambda or CloudFormation did not finish is said in a sentence', async () => {
  const failed = new Aws();
  failed.answer = ((usual) => (method, path, target, body) => path.includes('/configuration') ? [200, { LastUpdateStatus: 'Failed', LastUpdateStatusReason: 'no image' }] : usual(method, path, target, body))(failed.answer.bind(failed));
  await assert.rejects(at(failed, () => publish(dev, codes())), /Lambda did not finish the update of [a-z-]+-dev/);
  const changed = new Aws();
  changed.answer = ((usual) => (method, path, target, body) => path.endsWith('/versions') ? [412, { __type: 'PreconditionFailedException' }] : usual(method, path, target, body))(changed.answer.bind(changed));
  await assert.rejects(at(changed, () => publish(dev, codes())), /Somebody changed [a-z-]+-dev during this deployment/);
  const stuck = new Aws();
  stuck.stack.status = 'UPDATE_ROLLBACK_FAILED';
  await assert.rejects(at(stuck, () => publish(dev, codes())), /in the state UPDATE_ROLLBACK_FAILED/);
});

test('what another deployment has recorded meanwhile stays', async () => {
  for (const first of [undefined, '6']) {
    const aws = new Aws();
    const all = functions(dev);
    if (first !== undefined) for (const fn of all) aws.deployed.set(fn, first);
    aws.onPublish = () => all.forEach((fn) => aws.deployed.set(fn, '9'));
    // CreateAlias of an alias that exists is a conflict, as UpdateAlias of a changed one is.
    if (first === undefined) aws.answer = ((usual) => (method, path, target, body) => method === 'POST' && path.endsWith('/aliases') ? [409, { __type: 'ResourceConflictException' }] : usual(method, path, target, body))(aws.answer.bind(aws));
    await assert.rejects(at(aws, () => publish(dev, codes())), /Another deployment of dev is in progress/);
    assert.deepEqual(new Set(aws.deployed.values()), new Set(['9']));
  }
});

test('stacks are protected where data is kept, tables where the templates say so, and neither twice', async () => {
  const protectedIn = async (env: Environment, aws = new Aws()) => {
    await at(aws, () => protect(env));
    return aws.changes;
  };
  assert.deepEqual(await protectedIn(dev), []);
  assert.deepEqual(await protectedIn(staging), ['stack ichido-data-staging true', 'stack ichido-staging true']);
  const tables = ['masutaka-feed-github-state', 'masutaka-feed-hatebu-state', 'feeds-state', 'MeshV2Table', 'slack-classify-bot-processed-events', 'tokens-ledger'];
  assert.deepEqual(await protectedIn(prod), ['stack ichido-data-prod true', 'stack ichido-prod true', ...tables.map((table) => `table ${table} true`)]);
  const off = tables.map((table) => `table ${table} true`);
  assert.deepEqual((await protectedIn(complete('prod'))).slice(2), [...off.slice(0, 4), 'table sessync-state true', ...off.slice(4)], 'a table that is off by default exists where it is on');
  const done = new Aws();
  done.stack.protection = done.tableProtection = true;
  assert.deepEqual(await protectedIn(prod, done), []);
});
