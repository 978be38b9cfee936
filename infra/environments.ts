// Everything that differs between environments, and nothing else. `npm run environment -- prod` prints one as JSON.
//
// To deploy your own: set `account` and the parameters that templates need of you (Metadata.Needed; `make deploy` names
// all that are missing). Secrets are not here: `make secrets ENV=…` sets them in SSM.

export type Name = 'local' | 'dev' | 'staging' | 'prod';

export interface Environment {
  name: Name;
  /** Where it lives. Without an account, the one of the credentials; a wrong one is refused. */
  account?: string;
  region: string;
  /** Ends every name. */
  suffix: string;
  /** What happens to tables and queues when their stack is destroyed. */
  removal: 'destroy' | 'retain';
  logLevel: 'debug' | 'info' | 'warn' | 'error';
  logRetentionDays: number;
  tracing: 'Active' | 'PassThrough';
  /** Who is told of alarms; nobody when absent. */
  alarms?: { protocol: 'email' | 'https' | 'sqs'; endpoint: string };
  /** US dollars a month; absent where nothing costs anything. */
  budgets?: { environment: number; feeds: number };
  /** What each route of the front door lets through; shared.yaml says which route is which. */
  throttling: Record<'slack' | 'transfers' | 'reads' | 'others', { requestsPerSecond: number; burst: number }>;
  /** Concurrent executions set aside for a function, by its name; the account's pool otherwise. */
  reservedConcurrency: Record<string, number>;
  /** How traffic moves to a new version (`make rollout`): percentages, and how long each is watched at least; where an alarm looks further back, as long as that. */
  rollout: { steps: number[]; bakeSeconds: number; alarms: string[] };
  /** Any parameter of any template by its name; wins over everything above. */
  parameters: Record<string, string | number>;
}

/** seed 5's heartbeats and longest connection; only what mesh.yaml declares is passed on. */
const quickMesh = { MeshHostHeartbeatSeconds: 15, MeshMemberHeartbeatSeconds: 15, MeshMaxConnectionTimeMinutes: 10 };
const thriftyMesh = { MeshHostHeartbeatSeconds: 30, MeshMemberHeartbeatSeconds: 120, MeshMaxConnectionTimeMinutes: 50 };

const dev: Environment = {
  name: 'dev',
  region: 'ap-northeast-1',
  suffix: '-dev',
  removal: 'destroy',
  logLevel: 'debug',
  logRetentionDays: 7,
  tracing: 'Active',
  budgets: { environment: 80, feeds: 1 }, // make cost ENV=… says about 60, half of it observability; a test compares
  throttling: {
    slack: { requestsPerSecond: 20, burst: 40 },
    transfers: { requestsPerSecond: 20, burst: 40 },
    reads: { requestsPerSecond: 40, burst: 80 },
    others: { requestsPerSecond: 5, burst: 10 },
  },
  reservedConcurrency: {},
  rollout: { steps: [100], bakeSeconds: 0, alarms: [] },
  parameters: { ...quickMesh },
};

export const environments: Record<Name, Environment> = {
  dev,

  // The same stack on a local AWS (`make deploy ENV=local`). Nothing there is worth keeping. LOCAL_PARAMETERS (JSON) turns
  // it towards stand-ins: LOCAL_PARAMETERS='{"SlackApiUrl": "http://127.0.0.1:8787/…"}'.
  local: {
    ...dev,
    name: 'local',
    suffix: '-local',
    budgets: undefined,
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

  // Most alarms look at 15 minutes. Staging is content with what each function's alarms need, prod watches every function for as long.
  prod: {
    ...dev,
    name: 'prod',
    suffix: '',
    removal: 'retain',
    logLevel: 'info',
    logRetentionDays: 90,
    throttling: {
      slack: { requestsPerSecond: 100, burst: 200 },
      transfers: { requestsPerSecond: 100, burst: 200 },
      reads: { requestsPerSecond: 200, burst: 400 },
      others: { requestsPerSecond: 10, burst: 20 },
    },
    rollout: { steps: [10, 50, 100], bakeSeconds: 900, alarms: ['http-api-errors'] },
    parameters: { ...thriftyMesh },
  },
};

export function environment(name: string | undefined): Environment {
  const found = environments[name as Name];
  if (found === undefined) {
    throw new Error(`ENV is one of ${Object.keys(environments).join(', ')}; it is ${name ? `"${name}"` : 'not set'}`);
  }
  return found;
}

if (process.argv[1]?.endsWith('environments.ts')) {
  console.log(JSON.stringify(environment(process.argv[2]), null, 2));
}
