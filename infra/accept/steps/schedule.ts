// EventBridge Scheduler may invoke a function through live, with the role of the template.
//
// A one-time schedule copies the target of a real one and sends the health payload with an id, which the function logs. So it has no effect.
import { CreateScheduleCommand, DeleteScheduleCommand, GetScheduleCommand, SchedulerClient } from '@aws-sdk/client-scheduler';
import { parameters } from '../../service.ts';
import { readTemplate } from '../../template.ts';
import { proven, type Step } from '../step.ts';
import { until } from '../world.ts';

/** The scheduler is precise to a minute. */
const FIRES_MS = 240_000;
const AHEAD_MS = 5_000;

export const schedule: Step = {
  name: 'schedule',
  claim: 'a schedule that is due now invokes its function through live',
  async prove(world) {
    const client = new SchedulerClient({});
    const name = String(parameters(readTemplate('feeds'), world.env, { architecture: 'arm64' }, {}).HatebuScheduleName);
    const { Target, GroupName } = await client.send(new GetScheduleCommand({ Name: name }));
    const { Arn, RoleArn } = Target ?? {};
    if (!Arn?.endsWith(':live') || !RoleArn) throw new Error(`${name} does not go through live: ${Arn}`);
    const at = new Date(Date.now() + AHEAD_MS).toISOString().slice(0, 19);
    world.afterwards('delete the schedule', () => client.send(new DeleteScheduleCommand({ Name: world.id, GroupName })).catch((error) => {
      if (error.name !== 'ResourceNotFoundException') throw error; // it deletes itself when it has fired
    }));
    await client.send(new CreateScheduleCommand({
      Name: world.id, GroupName, ScheduleExpression: `at(${at})`, FlexibleTimeWindow: { Mode: 'OFF' }, ActionAfterCompletion: 'DELETE',
      Target: { ...Target, Arn, RoleArn, Input: JSON.stringify({ ichido: 'health', id: world.id }) },
    }));
    await until(world, 'the invocation in the log', async () => {
      const { answer } = await world.ctl<{ lines: unknown[] }>('trace', world.id);
      return answer?.lines?.length > 0;
    }, FIRES_MS, 5_000);
    return proven(`${Arn.split(':').slice(-2).join(':')} was invoked by a schedule with the role of ${name}${world.place('local AWS')}`);
  },
};
