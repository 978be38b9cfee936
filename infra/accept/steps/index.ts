// Every step, in the order in which they run: first what only looks, last what deploys.
import type { Step } from '../step.ts';
import { alarms } from './alarms.ts';
import { coldStarts, deployment, failedDeployment, rollback, rollout, weights } from './deployments.ts';
import { functions } from './functions.ts';
import { realtime } from './realtime.ts';
import { resolvers } from './resolvers.ts';
import { schedule } from './schedule.ts';
import { slackEvent } from './slack.ts';
import { backups, expiry } from './tables.ts';
import { transfer } from './transfer.ts';

export const steps: Step[] = [functions, expiry, backups, resolvers, realtime, slackEvent, transfer, schedule, alarms, failedDeployment, deployment, coldStarts, rollout, weights, rollback];
