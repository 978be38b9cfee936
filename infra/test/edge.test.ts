// The limit per address: nothing of it exists unless an environment asks for it, and then all of it does.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { cost, pricesOf, read, sum, type Usage } from '../cost.ts';
import { EDGE_RULES, edgeLines, edgeParameters, type Edge } from '../edge.ts';
import { environments, type Environment } from '../environments.ts';
import { synthesize as fresh } from '../synthesize.ts';
import { infra, readTemplate } from '../template.ts';
import { auditFresh, findings, names, ofType, synthesize } from './synth.ts';
import * as standards from './standards.ts';

const ARN = 'arn:aws:wafv2:us-east-1:123456789012:global/webacl/ichido-edge-prod/473e64fd-f30b-4765-81a0-62ad96dd167a';
const prod = (edge: unknown): Environment => ({ ...environments.prod, edge: edge as Edge });
const open = fresh(prod({ webAcl: ARN, directAddress: 'open' }));
const closed = auditFresh(prod({ webAcl: ARN, directAddress: 'closed' }));
const url = ({ stacks }: typeof open) => stacks.service.template.Outputs.HttpApiUrl.Value;
const origin = ({ resources }: typeof open) => resources.EdgeDistribution!.Properties.DistributionConfig.Origins[0];

test('nothing of it exists unless an environment asks for it', () => {
  for (const name of names) {
    const synthesized = synthesize(name);
    assert.deepEqual(Object.values(synthesized.resources).filter((r) => /^AWS::(CloudFront|WAFv2)::/.test(r.Type)), [], name);
    assert.equal(synthesized.resources.HttpApiStage!.Properties.StageName, '$default');
    assert.deepEqual(url(synthesized), { 'Fn::GetAtt': ['HttpApi', 'ApiEndpoint'] });
  }
});

test('with it, CloudFront and the web ACL are in front of the API, and nothing else changes', () => {
  const { EdgeDistribution, ...others } = open.resources;
  assert.deepEqual(others, synthesize('prod').resources);
  const config = EdgeDistribution!.Properties.DistributionConfig;
  assert.equal(config.WebACLId, ARN);
  assert.deepEqual([config.Enabled, config.IPV6Enabled, config.Aliases, config.CacheBehaviors, config.Origins.length], [true, false, undefined, undefined, 1]);
  assert.match(JSON.stringify(origin(open).DomainName), /"HttpApi"},"\.execute-api\.ap-northeast-1\."/);
  assert.equal(origin(open).OriginPath, '');
  assert.deepEqual(url(open), { 'Fn::Join': ['', ['https://', { 'Fn::GetAtt': ['EdgeDistribution', 'DomainName'] }]] });
});

test('answers are never cached, neither good ones nor errors', () => {
  const { DefaultCacheBehavior, CustomErrorResponses } = open.resources.EdgeDistribution!.Properties.DistributionConfig;
  assert.equal(DefaultCacheBehavior.CachePolicyId, '4135ea2d-6df8-44a3-9df3-4b5a84be39ad', "AWS's CachingDisabled");
  assert.equal(DefaultCacheBehavior.OriginRequestPolicyId, 'b689b0a8-53d0-40ab-baf2-68738e2966ac', "AWS's AllViewerExceptHostHeader");
  const cached = [404, 405, 414, 500, 501, 502, 503, 504]; // which CloudFront caches without being asked
  assert.deepEqual(CustomErrorResponses, cached.map((ErrorCode) => ({ ErrorCode, ErrorCachingMinTTL: 0 })));
});

test('a closed direct address needs the name of a stage that only CloudFront is told, and nothing else changes', () => {
  const { EdgeDistribution, HttpApiStage, ...others } = closed.resources;
  const { EdgeDistribution: _, HttpApiStage: former, ...before } = open.resources;
  assert.deepEqual(others, before);
  assert.deepEqual(HttpApiStage, { ...former, Properties: { ...former!.Properties, StageName: { 'Fn::Join': ['', ['edge-', { Ref: 'AlarmKey' }]] } } });
  assert.deepEqual(origin(closed).OriginPath, { 'Fn::Join': ['', ['/', { Ref: 'HttpApiStage' }]] });
  assert.equal(EdgeDistribution!.Properties.DistributionConfig.WebACLId, ARN);
});

test('it keeps every standard, and cdk-nag finds nothing unexplained', () => {
  for (const [name, check] of Object.entries(standards.all)) assert.deepEqual(check(closed), [], name);
  assert.deepEqual(findings(closed), []);
});

const template = parse(fs.readFileSync(path.join(infra, 'edge', 'web-acl.yaml'), 'utf8'));

const SLACK = { ByteMatchStatement: { FieldToMatch: { UriPath: {} }, PositionalConstraint: 'EXACTLY', SearchString: '/slack/events', TextTransformations: [{ Priority: 0, Type: 'NONE' }] } };

test('the web ACL refuses an address that sends too much, and nobody else; each request counts for one rule', () => {
  const [[, { Properties: acl }]] = ofType(template.Resources, 'AWS::WAFv2::WebACL') as [[string, any]];
  assert.deepEqual([acl.Scope, acl.DefaultAction, acl.Rules.length], ['CLOUDFRONT', { Allow: {} }, EDGE_RULES]);
  for (const rule of acl.Rules) assert.deepEqual(rule.Action, { Block: { CustomResponse: { ResponseCode: 429 } } });
  const limited = (Limit: string, ScopeDownStatement: object) => ({ RateBasedStatement: { AggregateKeyType: 'IP', EvaluationWindowSec: 300, Limit: { Ref: Limit }, ScopeDownStatement } });
  assert.deepEqual(acl.Rules[0].Statement, limited('RequestsPerFiveMinutes', { NotStatement: { Statement: SLACK } }));
  assert.deepEqual(acl.Rules[1].Statement, limited('SlackEventsPerFiveMinutes', SLACK));
  assert.deepEqual(template.Outputs.WebAclArn.Value, { 'Fn::GetAtt': [ofType(template.Resources, 'AWS::WAFv2::WebACL')[0]![0], 'Arn'] });
});

test("the path of the web ACL's rule for Slack is the route's", () => {
  const routes = ofType(synthesize('prod').resources, 'AWS::ApiGatewayV2::Route').map(([, route]) => route.Properties.RouteKey);
  assert.ok(routes.includes(`POST ${SLACK.ByteMatchStatement.SearchString}`), String(routes));
});

test('one address may send at most half of what the route for transfers lets through', () => {
  const limit = template.Parameters.RequestsPerFiveMinutes.Default;
  for (const { name, throttling } of Object.values(environments)) assert.ok(limit <= (throttling.transfers.requestsPerSecond * 300) / 2, name);
});

test("all of a workspace's events of an hour may come at once and from one address", () => {
  assert.ok(template.Parameters.SlackEventsPerFiveMinutes.Default >= 3 * 30_000, 'Slack sends a workspace at most 30,000 events per hour, each up to three times in five minutes');
});

for (const [what, edge, problem] of [
  ['no web ACL', { webAcl: '', directAddress: 'open' }, /edge of prod is wrong:\n {2}webAcl is the ARN of a web ACL for CloudFront, .* not ""/],
  ['a web ACL of a region', { webAcl: ARN.replace('us-east-1', 'ap-northeast-1').replace('global', 'regional'), directAddress: 'open' }, /webAcl is the ARN/],
  ['neither open nor closed', { webAcl: ARN, directAddress: 'off' }, /directAddress is open or closed, not "off"/],
] as const) {
  test(`${what} stops the synthesis`, () => {
    assert.throws(() => fresh(prod(edge)), problem);
  });
}

test('the direct address is not closed by a parameter alone, which would let nobody in', () => {
  const parameters = { ...environments.prod.parameters, DirectAddress: 'closed' };
  assert.throws(() => fresh({ ...environments.prod, parameters }), /prod sets the parameter DirectAddress: set edge instead/);
  const declared = Object.keys(readTemplate('shared').Parameters!).filter((p) => /^(Edge|DirectAddress)/.test(p));
  assert.deepEqual(Object.keys(edgeParameters(prod({ webAcl: ARN, directAddress: 'open' }))), declared);
});

test('make cost counts it where it is on, and says what it costs where it is off', () => {
  const usage = read<Usage>('usage.json');
  const prices = pricesOf('ap-northeast-1');
  const month = (free: boolean, { resources } = open) => cost({ resources, applications: {}, usage, prices, free, suffix: '' });
  const own = (free: boolean) => month(free).filter((l) => l.resource === 'EdgeDistribution');
  assert.deepEqual(own(false).map((l) => [l.part, l.unit, l.quantity]), [['protection', 'cloudfrontRequest', 90_000], ['protection', 'wafAcl', 1], ['protection', 'wafRule', EDGE_RULES], ['protection', 'wafRequest', 90_000]]);
  assert.equal(sum(own(false)).toFixed(3), '7.162');
  assert.equal(sum(own(true)).toFixed(3), '7.054', 'ten million requests to CloudFront are free');
  assert.ok(Math.abs(sum(month(false)) - sum(month(false, synthesize('prod'))) - sum(own(false))) < 1e-9);
  assert.match(edgeLines(prices, 90_000, false)[0]!, /edge, off here\): 7\.00 per month and 1\.80 per million requests; 7\.16 at this usage/);
  assert.match(edgeLines(prices, 0, true)[0]!, /on: counted above/);
});
