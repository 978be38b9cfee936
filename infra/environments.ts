// Everything that differs between environments, and nothing else. `npm run environment -- prod` prints one as JSON.
//
// To deploy your own: set `account` and the parameters that the templates need (Metadata.Needed; `make deploy` names
// those that are missing). Secrets are not here: `make secrets ENV=…` stores them in SSM.
import { edgeParameters, type Edge } from './edge.ts';
import { BUILT_IN, further, type Feed, type Feeds } from './feeds.ts';
import { sameContentParameters, type SameContent } from './same-content.ts';

export type Name = 'local' | 'dev' | 'staging' | 'prod';

export interface Environment {
  name: Name;
  /** The AWS account. Without it, the account of the credentials; a wrong one is refused. */
  account?: string;
  region: string;
  /** Every name ends in it. */
  suffix: string;
  /** What happens to tables and queues when their stack is destroyed. */
  removal: 'destroy' | 'retain';
  logLevel: 'debug' | 'info' | 'warn' | 'error';
  logRetentionDays: number;
  tracing: 'Active' | 'PassThrough';
  /** Whom alarms notify; nobody if absent. staging and prod are not deployed without it. */
  alarms?: { protocol: 'email' | 'https' | 'sqs'; endpoint: string };
  /** US dollars per month; absent where nothing costs anything. */
  budgets?: { environment: number; feeds: number };
  /** How many requests each route of the HTTP API lets through; shared.yaml says which route is which. */
  throttling: Record<'slack' | 'transfers' | 'reads' | 'others', { requestsPerSecond: number; burst: number }>;
  /** CloudFront in front of the HTTP API, which limits each address; absent, nothing of it exists. docs/operations.md says how to switch it on. */
  edge?: Edge;
  /** Concurrent executions reserved for a function, by its name; others use the account's pool. */
  reservedConcurrency: Record<string, number>;
  /**
   * How traffic moves to a new version (`make rollout`): the percentages, and the shortest time for which each is watched. Where an alarm looks
   * further back than that, the step is watched for as long as the alarm looks back.
   */
  rollout: { steps: number[]; bakeSeconds: number; alarms: string[] };
  /**
   * The ARN of the KMS key that encrypts secrets; absent, SSM's own key, which everybody in the account who may read the parameter can use.
   * An alias will not do: IAM takes only a key's own ARN in the permission to decrypt.
   */
  secretsKey?: string;
  /** The name of a managed policy that every role of the environment gets as its permissions boundary; none if absent. */
  permissionsBoundary?: string;
  /** The feeds that are read. The first two are always there; docs/deployment.md says how to add others. */
  feeds: Feeds;
  /** Where Slack files with a content that was handled before get a link instead of being handled; nowhere if absent. */
  sameContent?: SameContent;
  /** Any parameter of any template, by its name; overrides everything above. */
  parameters: Record<string, string | number>;
}

/** Development: groups end soon after their nodes are gone, so that one does not wait while trying things. */
const quickMesh = { MeshHostHeartbeatSeconds: 15, MeshMemberHeartbeatSeconds: 15, MeshMaxConnectionTimeMinutes: 10 };
/** Production: rare heartbeats, which save at least 70 % of what heartbeats cost (`make cost`). */
const thriftyMesh = { MeshHostHeartbeatSeconds: 30, MeshMemberHeartbeatSeconds: 120, MeshMaxConnectionTimeMinutes: 50 };

const dev: Environment = {
  name: 'dev',
  region: 'ap-northeast-1',
  suffix: '-dev',
  removal: 'destroy',
  logLevel: 'debug',
  logRetentionDays: 7,
  tracing: 'Active',
  budgets: { environment: 60, feeds: 1 }, // make cost ENV=… prints about 40, of which observability at most 8; a test compares
  throttling: {
    slack: { requestsPerSecond: 20, burst: 40 },
    transfers: { requestsPerSecond: 20, burst: 40 },
    reads: { requestsPerSecond: 40, burst: 80 },
    others: { requestsPerSecond: 5, burst: 10 },
  },
  reservedConcurrency: {},
  rollout: { steps: [100], bakeSeconds: 0, alarms: [] },
  feeds: [...BUILT_IN],
  parameters: { ...quickMesh },
};

export const environments: Record<Name, Environment> = {
  dev,

  // The same stack on a local AWS (`make deploy ENV=local`). Nothing there is worth keeping. LOCAL_PARAMETERS (JSON) turns
  // it towards stand-ins: LOCAL_PARAMETERS='{"SlackApiUrl": "http://127.0.0.1:8787/…"}'. LOCAL_FEEDS (JSON) is a list of further feeds. LOCAL_REMOVAL=retain
  // keeps and protects what staging and prod keep and protect, for the deployment test.
  local: {
    ...dev,
    name: 'local',
    suffix: '-local',
    removal: process.env.LOCAL_REMOVAL === 'retain' ? 'retain' : 'destroy',
    budgets: undefined,
    feeds: [...BUILT_IN, ...(JSON.parse(process.env.LOCAL_FEEDS ?? '[]') as Feed[])],
    parameters: { ...dev.parameters, ...(JSON.parse(process.env.LOCAL_PARAMETERS ?? '{}') as Record<string, string>) },
  },

  staging: {
    ...dev,
    name: 'staging',
    suffix: '-staging',
    removal: 'retain',
    logLevel: 'info',
    logRetentionDays: 30,
    rollout: { steps: [10, 50, 100], bakeSeconds: 120, alarms: ['http-api-errors'] },
    parameters: { ...thriftyMesh },
  },

  // Most alarms look at 15 minutes. Staging watches each function only for as long as its own alarms need; prod watches every function for 15 minutes.
  prod: {
    ...dev,
    name: 'prod',
    suffix: '',
    removal: 'retain',
    logLevel: 'info',
    logRetentionDays: 90,
    throttling: {
      // Slack repeats an event three times. At this rate all that it sends in an hour passes, even if it comes within half a minute (docs/scale.md).
      slack: { requestsPerSecond: 400, burst: 800 },
      transfers: { requestsPerSecond: 100, burst: 200 },
      reads: { requestsPerSecond: 200, burst: 400 },
      others: { requestsPerSecond: 10, burst: 20 },
    },
    rollout: { steps: [10, 50, 100], bakeSeconds: 900, alarms: ['http-api-errors'] },
    parameters: { ...thriftyMesh, MeshIntrospection: 'DISABLED' },
  },
};

export function environment(name: string | undefined): Environment {
  const found = environments[name as Name];
  if (found === undefined) {
    throw new Error(`ENV is one of ${Object.keys(environments).join(', ')}; it is ${name ? `"${name}"` : 'not set'}`);
  }
  further(found); // throws if the list of feeds is wrong
  sameContentParameters(found);
  edgeParameters(found);
  return found;
}

if (process.argv[1]?.endsWith('environments.ts')) {
  console.log(JSON.stringify(environment(process.argv[2]), null, 2));
}
