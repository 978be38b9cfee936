// CloudFront in front of the HTTP API, with a limit per address (docs/operations.md, "Under a flood").
import { type Prices } from './cost.ts';
import { type Environment } from './environments.ts';

export interface Edge {
  /** The ARN of the web ACL with the limit: the output WebAclArn of infra/edge/web-acl.yaml. */
  webAcl: string;
  /** Whether the HTTP API also answers at its own address, where the limit does not hold. Close it once Slack and all clients use the new address. */
  directAddress: 'open' | 'closed';
}

/** The rules of infra/edge/web-acl.yaml: one for Slack's events, one for everything else. */
export const EDGE_RULES = 2;

const WEB_ACL = /^arn:aws[a-z-]*:wafv2:us-east-1:\d{12}:global\/webacl\/[\w-]+\/[\w-]+$/;

/** The parameters of shared.yaml. The setting is wrong if this throws. */
export function edgeParameters({ name, edge, parameters }: Environment): Record<string, string> {
  const raw = ['Edge', 'EdgeWebAclArn', 'DirectAddress'].filter((parameter) => parameter in parameters);
  if (raw.length > 0) throw new Error(`${name} sets the parameter ${raw.join(' and ')}: set edge instead, which is checked. A direct address that is closed without it would let nobody in`);
  if (edge === undefined) return {};
  const { webAcl, directAddress } = edge;
  const problems = [];
  if (!WEB_ACL.test(webAcl)) problems.push(`webAcl is the ARN of a web ACL for CloudFront, like arn:aws:wafv2:us-east-1:123456789012:global/webacl/NAME/ID, not ${JSON.stringify(webAcl)}`);
  if (!['open', 'closed'].includes(directAddress)) problems.push(`directAddress is open or closed, not ${JSON.stringify(directAddress)}`);
  if (problems.length > 0) throw new Error(`edge of ${name} is wrong:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
  return { Edge: 'on', EdgeWebAclArn: webAcl, DirectAddress: directAddress };
}

/** What the limit per address costs, for `make cost`. */
export function edgeLines(prices: Prices, requests: number, isOn: boolean): string[] {
  const fixed = prices.wafAcl! + EDGE_RULES * prices.wafRule!;
  const each = prices.wafRequest! + prices.cloudfrontRequest!;
  return [
    `Limit per address for Slack's events and the tokens (edge, ${isOn ? 'on: counted above' : 'off'} here): ${fixed.toFixed(2)} per month and ${(each * 1e6).toFixed(2)} per million requests; ${(fixed + requests * each).toFixed(2)} at this usage.`,
    `A request that is refused costs only ${(prices.wafRequest! * 1e6).toFixed(2)} per million.`,
  ];
}
