// `ichidoctl doctor`: everything that is deployed agrees with the templates, and a difference is named.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { cloudwatch, scheduler } from '../../../infra/cli/aws.ts';
import { root } from '../../../infra/template.ts';
import { DEPLOY_MS, functions, run } from '../world.ts';

const ichidoctl = path.join(process.env.CARGO_TARGET_DIR ?? path.join(root, 'target'), 'debug', 'ichidoctl');
const doctor = (...args: string[]) => run(ichidoctl, ['doctor', '--env', 'local', ...args]);

test('the doctor finds everything as the templates say', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await doctor();
  assert.equal(code, 0, text);
  assert.match(text, /all \d+ checks agree with the templates/);
  for (const { deployed } of functions) assert.match(text, new RegExp(`ok +alias +${deployed}:live`));
  for (const kind of ['table', 'index', 'ttl', 'schedule', 'alarm', 'secret', 'role', 'permission']) assert.match(text, new RegExp(`^ok +${kind} `, 'm'));
});

test('what is not as the templates say is named, and the exit code says so', { timeout: DEPLOY_MS }, async () => {
  const schedules = new scheduler.SchedulerClient({});
  const Name = 'hatebu-feed-subscriber-schedule-local';
  const before = await schedules.send(new scheduler.GetScheduleCommand({ Name }));
  const change = (ScheduleExpression: string) => schedules.send(new scheduler.UpdateScheduleCommand({
    Name, FlexibleTimeWindow: before.FlexibleTimeWindow, Target: before.Target, State: before.State, ScheduleExpression,
  }));
  const alarms = new cloudwatch.CloudWatchClient({});
  const AlarmName = 'tokens-conflicts-local';
  const alarm = (await alarms.send(new cloudwatch.DescribeAlarmsCommand({ AlarmNames: [AlarmName] }))).MetricAlarms![0]!;
  const put = (threshold: number) => alarms.send(new cloudwatch.PutMetricAlarmCommand({
    AlarmName, AlarmDescription: alarm.AlarmDescription, Namespace: alarm.Namespace, MetricName: alarm.MetricName, Dimensions: alarm.Dimensions, Statistic: alarm.Statistic,
    Period: alarm.Period, EvaluationPeriods: alarm.EvaluationPeriods, DatapointsToAlarm: alarm.DatapointsToAlarm, ComparisonOperator: alarm.ComparisonOperator,
    Threshold: threshold, TreatMissingData: alarm.TreatMissingData, AlarmActions: alarm.AlarmActions, OKActions: alarm.OKActions,
  }));
  await change('rate(1 hour)');
  await put(alarm.Threshold! + 1);
  const { code, text } = await doctor('--json', '--bad');
  await change(before.ScheduleExpression!);
  await put(alarm.Threshold!);
  assert.equal(code, 1, text);
  const found = JSON.parse(text) as { kind: string; name: string; notes: string[] }[];
  assert.deepEqual(found.map((f) => `${f.kind} ${f.name}`).sort(), [`alarm ${AlarmName}`, `schedule ${Name}`], text);
  assert.match(text, /ScheduleExpression is rate\(1 hour\), the template says rate\(15 minutes\)/);
  assert.equal((await doctor('--bad')).code, 0);
});
