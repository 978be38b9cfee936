// Whoever listens to the topic gets the message of each alarm: the topic's policy and its key let CloudWatch publish.
import { CloudWatchClient, paginateDescribeAlarms, SetAlarmStateCommand, type MetricAlarm } from '@aws-sdk/client-cloudwatch';
import { SNSClient, SubscribeCommand, UnsubscribeCommand } from '@aws-sdk/client-sns';
import { CreateQueueCommand, DeleteMessageBatchCommand, DeleteQueueCommand, GetQueueAttributesCommand, ReceiveMessageCommand, SetQueueAttributesCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { Environment } from '../../environments.ts';
import { readTemplate, templateNames } from '../../template.ts';
import { must, proven, type Step } from '../step.ts';
import { until } from '../world.ts';

/** The alarms of the templates. */
function alarmNames(env: Environment): string[] {
  const resources = templateNames().flatMap((name) => Object.values(readTemplate(name).Resources));
  return resources.filter(({ Type }) => Type === 'AWS::CloudWatch::Alarm').map(({ Properties: p }) => String(p!.AlarmName['Fn::Sub']).replace('${Suffix}', env.suffix));
}

/** For the messages of all alarms. */
const MESSAGES_MS = 120_000;

export const alarms: Step = {
  name: 'alarms',
  claim: 'the message of each alarm reaches the topic and names its runbook',
  async prove(world) {
    const topic = world.output('AlarmTopicArn');
    const cloudwatch = new CloudWatchClient({});
    const here: MetricAlarm[] = [];
    for await (const page of paginateDescribeAlarms({ client: cloudwatch }, {})) {
      here.push(...(page.MetricAlarms ?? []).filter((alarm) => alarm.AlarmActions?.includes(topic)));
    }
    const all = here.filter((alarm) => alarm.ActionsEnabled !== false);
    const disabled = here.filter((alarm) => alarm.ActionsEnabled === false).map((alarm) => alarm.AlarmName);
    const elsewhere = alarmNames(world.env).filter((name) => !here.some((alarm) => alarm.AlarmName === name));
    must(elsewhere.length === 0, `these alarms of the templates do not exist, or send no message to ${topic}: ${elsewhere.join(', ')}`);
    const already = all.filter((alarm) => alarm.StateValue === 'ALARM').map((alarm) => alarm.AlarmName);
    must(already.length === 0, `these alarms ring already: ${already.join(', ')}`);

    const sqs = new SQSClient({ useQueueUrlAsEndpoint: !world.isLocal });
    const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: world.id }));
    world.afterwards('delete the queue', () => sqs.send(new DeleteQueueCommand({ QueueUrl })));
    const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }));
    const Endpoint = Attributes!.QueueArn!;
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Principal: { Service: 'sns.amazonaws.com' }, Action: 'sqs:SendMessage', Resource: Endpoint, Condition: { ArnEquals: { 'aws:SourceArn': topic } } }] });
    await sqs.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: { Policy } }));
    const sns = new SNSClient({});
    const { SubscriptionArn } = await sns.send(new SubscribeCommand({ TopicArn: topic, Protocol: 'sqs', Endpoint, ReturnSubscriptionArn: true }));
    world.afterwards('unsubscribe the queue', () => sns.send(new UnsubscribeCommand({ SubscriptionArn })));

    const silent = new Set(all.map((alarm) => alarm.AlarmName!));
    const wrong: string[] = [];
    const set = async (StateValue: 'ALARM' | 'OK', StateReason: string) => {
      for (const { AlarmName } of all) await cloudwatch.send(new SetAlarmStateCommand({ AlarmName, StateValue, StateReason }));
    };
    let ringing = false;
    const quiet = async () => { await set('OK', `make accept ENV=${world.env.name} is over`); ringing = false; };
    // Also if the run is interrupted before the end of this step.
    world.afterwards('set the alarms back', async () => { if (ringing) await quiet(); });
    try {
      ringing = true;
      await set('ALARM', `make accept ENV=${world.env.name}: a test of the message, nothing is wrong`);
      await until(world, 'the message of every alarm', async () => {
        const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 2, MaxNumberOfMessages: 10 }));
        for (const { Body } of Messages) {
          const { AlarmName, NewStateValue, AlarmDescription } = JSON.parse((JSON.parse(Body!) as { Message: string }).Message) as Record<string, string>;
          if (NewStateValue !== 'ALARM' || !silent.delete(AlarmName!)) continue;
          if (!/docs\/runbooks\/[a-z-]+\.md/.test(AlarmDescription ?? '')) wrong.push(AlarmName!);
        }
        if (Messages.length > 0) await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries: Messages.map(({ ReceiptHandle }, i) => ({ Id: String(i), ReceiptHandle })) }));
        return silent.size === 0;
      }, MESSAGES_MS, 0);
    } catch (error) {
      throw new Error(`${(error as Error).message}; no message of ${[...silent].join(', ')}`);
    } finally {
      await quiet(); // at once: a rollout does not begin while its alarms ring
    }
    must(wrong.length === 0, `these messages name no runbook: ${wrong.join(', ')}`);
    return proven(`${all.length} messages arrived, each with its runbook${world.place('local AWS')}${disabled.length === 0 ? '' : `; not tried, because their actions are disabled: ${disabled.join(', ')}`}`);
  },
};
