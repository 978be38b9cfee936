// `ichidoctl doctor` and `mend`: everything that is deployed agrees with the templates; a difference is named, and set back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cloudwatch, dynamodb, lambda, scheduler } from '../../../infra/cli/aws.ts';
import { client, DEPLOY_MS, functions, run, ichidoctl } from '../world.ts';

const doctor = (...args: string[]) => run(ichidoctl, ['doctor', '--env', 'local', ...args]);
const mend = (...args: string[]) => run(ichidoctl, ['mend', '--env', 'local', ...args]);

test('the doctor finds everything as the templates say', { timeout: DEPLOY_MS }, async () => {
  const { code, text } = await doctor();
  assert.equal(code, 0, text);
  assert.match(text, /all \d+ checks agree with the templates/);
  for (const { deployed } of functions) assert.match(text, new RegExp(`ok +alias +${deployed}:live`));
  for (const kind of ['table', 'index', 'ttl', 'schedule', 'concurrency', 'logs', 'alarm', 'secret', 'role', 'permission']) assert.match(text, new RegExp(`^ok +${kind} `, 'm'));
});

test('what somebody changed by hand is named, and mend sets it back as the templates say', { timeout: DEPLOY_MS }, async () => {
  const schedules = new scheduler.SchedulerClient({});
  const alarms = new cloudwatch.CloudWatchClient({});
  const db = new dynamodb.DynamoDBClient({});
  const Name = 'hatebu-feed-subscriber-schedule-local';
  const [AlarmName, Deleted] = ['tokens-conflicts-local', 'slack-files-errors-local'];
  const FunctionName = 'tokens-api-local';
  const TableName = 'tokens-ledger-local';
  const state = async () => {
    const { $metadata, LastModificationDate, ...schedule } = await schedules.send(new scheduler.GetScheduleCommand({ Name }));
    const { MetricAlarms } = await alarms.send(new cloudwatch.DescribeAlarmsCommand({ AlarmNames: [AlarmName, Deleted] }));
    const settings = MetricAlarms!.map(({ AlarmName, AlarmDescription, AlarmActions, OKActions, Threshold, Dimensions, Period, TreatMissingData, ActionsEnabled, ...more }) =>
      ({ AlarmName, AlarmDescription, AlarmActions, OKActions, Threshold, Dimensions, Period, TreatMissingData, ActionsEnabled, Statistic: more.Statistic, ComparisonOperator: more.ComparisonOperator, EvaluationPeriods: more.EvaluationPeriods, DatapointsToAlarm: more.DatapointsToAlarm }));
    const { TimeToLiveDescription } = await db.send(new dynamodb.DescribeTimeToLiveCommand({ TableName }));
    const { ReservedConcurrentExecutions } = await client().send(new lambda.GetFunctionConcurrencyCommand({ FunctionName }));
    return { schedule, alarms: settings.sort((a, b) => a.AlarmName!.localeCompare(b.AlarmName!)), ttl: TimeToLiveDescription, reserved: ReservedConcurrentExecutions };
  };
  const before = await state();
  const { schedule, alarms: [, alarm] } = before;
  // What a person at a console might do.
  await schedules.send(new scheduler.UpdateScheduleCommand({
    Name, FlexibleTimeWindow: schedule.FlexibleTimeWindow, Target: { Arn: schedule.Target!.Arn, RoleArn: schedule.Target!.RoleArn, Input: '{"dry":true}' }, State: 'DISABLED', ScheduleExpression: 'rate(1 hour)',
  }));
  const there = (await alarms.send(new cloudwatch.DescribeAlarmsCommand({ AlarmNames: [AlarmName] }))).MetricAlarms![0]!;
  await alarms.send(new cloudwatch.PutMetricAlarmCommand({
    AlarmName, Namespace: there.Namespace, MetricName: there.MetricName, Dimensions: there.Dimensions, Statistic: there.Statistic, Period: there.Period,
    EvaluationPeriods: there.EvaluationPeriods, ComparisonOperator: there.ComparisonOperator, Threshold: alarm!.Threshold! + 1, ActionsEnabled: false,
  }));
  await alarms.send(new cloudwatch.DeleteAlarmsCommand({ AlarmNames: [Deleted] }));
  await db.send(new dynamodb.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: { Enabled: false, AttributeName: 'ttl' } }));
  await db.send(new dynamodb.UpdateTableCommand({ TableName, DeletionProtectionEnabled: true }));
  await client().send(new lambda.PutFunctionConcurrencyCommand({ FunctionName, ReservedConcurrentExecutions: 0 }));

  const { code, text } = await doctor('--json', '--bad');
  assert.equal(code, 1, text);
  const found = JSON.parse(text) as { kind: string; name: string; notes: string[] }[];
  assert.deepEqual(found.map((f) => `${f.kind} ${f.name}`).sort(),
    [`alarm ${Deleted}`, `alarm ${AlarmName}`, `concurrency ${FunctionName}`, `schedule ${Name}`, `table ${TableName}`, `ttl ${TableName}`].sort(), text);
  assert.match(text, /ScheduleExpression is rate\(1 hour\), the template says rate\(15 minutes\)/);
  assert.match(text, /Target.DeadLetterConfig.Arn is nothing/);
  assert.match(text, /Target.Input is /);

  const unasked = await mend();
  assert.equal(unasked.code, 2, unasked.text);
  const mended = await mend('--yes');
  assert.equal(mended.code, 0, mended.text);
  assert.deepEqual(await state(), before, 'everything is as the deployment made it');
  assert.equal((await doctor('--bad')).code, 0);
});
