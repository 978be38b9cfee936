// A signed event through the HTTP API gets one reply, and so does its duplicate.
//
// On an account the reply goes to Slack itself: a run posts a message into the channel ACCEPT_SLACK_CHANNEL, sends an event about a file in
// it, counts the replies in its thread, and deletes what was posted. With ENV=local it uses the local platform, whose Slack is a stand-in.
import { described } from '../../cli/world.ts';
import { request } from '../http.ts';
import { fileEvent, sign } from '../slack-event.ts';
import { must, notHere, proven, type Step } from '../step.ts';
import { until, type World } from '../world.ts';

/** A place where an event can be sent and its replies counted. */
interface Thread {
  door: URL;
  signingSecret: string;
  channel: string;
  ts: string;
  replies(): Promise<number>;
}

export const slackEvent: Step = {
  name: 'slack-event',
  claim: 'a signed Slack event and its duplicate get one reply; an unsigned one is refused',
  async prove(world) {
    const thread = world.isLocal ? await onThePlatform(world) : await inSlack(world);
    if (thread === undefined) return notHere('set ACCEPT_SLACK_CHANNEL to the id of a channel of which the bot is a member');
    const seconds = Math.floor(Date.now() / 1000);
    const body = fileEvent(`Ev${world.id}`, `F${world.id}`, seconds, thread.channel, thread.ts);
    const headers = sign(thread.signingSecret, body, seconds);
    const forged = await request(thread.door, { ...headers, 'x-slack-signature': 'v0=00' }, body);
    must(forged.status === 401, `an event with a wrong signature was answered with ${forged.status}, not 401`);
    for (const attempt of ['event', 'duplicate']) {
      const { status, text } = await request(thread.door, headers, body);
      must(status === 200, `the ${attempt} was answered with ${status}: ${text}`);
    }
    await until(world, 'a reply', async () => (await thread.replies()) > 0);
    // Whatever the duplicate started has ended when the record of the file is complete.
    await new Promise((resolve) => setTimeout(resolve, 3000));
    const replies = await thread.replies();
    must(replies === 1, `${replies} replies instead of one`);
    return proven(`one reply to an event that was sent twice; a forged one got 401${world.place('local platform')}`);
  },
};

async function onThePlatform(world: World): Promise<Thread> {
  const { url } = await world.localPlatform();
  const { slackSigningSecret } = (await (await fetch(`${url}/_local/config`)).json()) as { slackSigningSecret: string };
  const ts = `${Math.floor(Date.now() / 1000)}.000200`;
  const replies = async () => {
    const posts = (await (await fetch(`${url}/_local/outbox?sink=slack`)).json()) as { request: { thread_ts?: string } }[];
    return posts.filter((p) => p.request.thread_ts === ts).length;
  };
  return { door: new URL('/slack/events', url), signingSecret: slackSigningSecret, channel: 'C0001', ts, replies };
}

async function inSlack(world: World): Promise<Thread | undefined> {
  const channel = process.env.ACCEPT_SLACK_CHANNEL;
  if (!channel) return undefined;
  const name = (parameter: string) => described(world.env).secrets.find((s) => s.parameter === parameter)!.name;
  const token = await world.secret(name('SlackBotTokenParameter'));
  const call = async (method: string, fields: Record<string, string>): Promise<any> => {
    const answer = await fetch(`https://slack.com/api/${method}`, { method: 'POST', headers: { authorization: `Bearer ${token}` }, body: new URLSearchParams(fields), signal: AbortSignal.timeout(10_000) });
    const value = (await answer.json()) as { ok: boolean; error?: string };
    must(value.ok, `Slack answered ${method} with ${value.error}`);
    return value;
  };
  const { ts } = await call('chat.postMessage', { channel, text: `make accept ENV=${world.env.name}: this message is deleted at the end` });
  const inThread = async () => ((await call('conversations.replies', { channel, ts })).messages as { ts: string }[]).filter((m) => m.ts !== ts);
  world.afterwards('delete the messages in Slack', async () => {
    for (const message of [...await inThread(), { ts }]) await call('chat.delete', { channel, ts: message.ts });
  });
  const [signingSecret] = (await world.secret(name('SlackSigningSecretParameter'))).split(',');
  return {
    door: new URL(world.output('SlackRequestUrlPath'), world.output('HttpApiUrl')), signingSecret: signingSecret!.trim(), channel, ts,
    replies: async () => (await inThread()).length,
  };
}
