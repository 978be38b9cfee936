// Slack: uploads whose events are repeated as Slack repeats them, sometimes several at once. The books: one reply per file.
import { createHmac } from 'node:crypto';
import { run } from './support.mjs';

/** Longer than `slack-events` may take (3 s): whoever gives up earlier does not know that the function has ended. */
const ANSWER_MS = 6_000;

export class SlackLoad {
  name = 'slack';
  /** Every file that was uploaded: its id -> whether Slack got a 200 for its event. */
  files = new Map();
  #next = 1;
  #pending = 0;
  /** The last event, for repeats. */
  #last = null;
  #redriven = 0;

  constructor(storm) {
    this.storm = storm;
  }

  get done() {
    return [...this.files.values()].filter(Boolean).length;
  }

  status() {
    return `${this.done}/${this.files.size} files`;
  }

  async load() {
    const { storm } = this;
    while (!storm.isOver) {
      if (this.#pending < 40) void storm.track(this, this.#upload());
      await storm.sleep(storm.dice.between(300, 1100));
    }
  }

  async #upload() {
    const { dice } = this.storm;
    const id = this.#next;
    this.#next += 1;
    const files = Array.from({ length: dice.happens(0.2) ? 2 : 1 }, (_, n) => `F${String(id).padStart(6, '0')}X${n}`);
    for (const file of files) this.files.set(file, false);
    const ts = `${1_700_000_000 + id}.000100`;
    const body = JSON.stringify({
      type: 'event_callback', team_id: 'T0STORM', api_app_id: 'A0STORM', event_id: `Ev${id}`, event_time: 1_700_000_000 + id,
      event: {
        type: 'message', subtype: 'file_share', channel: `C${id % 5}`, user: 'U0ALICE', ts, event_ts: ts,
        files: files.map((file) => ({ id: file, name: `${file}.pdf`, mimetype: 'application/pdf', size: 1_250_000 })),
      },
    });
    this.#pending += 1;
    // Slack repeats an event until it gets a 200. It gives up after about six minutes; the storm does not, because an event that Slack
    // has given up is promised no reply.
    while (!this.storm.isClosed) {
      const copies = dice.happens(0.3) ? Math.round(dice.between(2, 4)) : 1;
      const answers = await Promise.all(Array.from({ length: copies }, () => this.#send(body)));
      if (answers.includes(200)) break;
      await this.storm.rest(dice.between(200, 2_000));
    }
    this.#pending -= 1;
    if (this.storm.isClosed) return;
    for (const file of files) this.files.set(file, true);
    this.#last = body;
    // And sometimes it repeats one that it should have forgotten.
    if (dice.happens(0.25)) {
      await this.storm.sleep(dice.between(100, 60_000));
      await this.#send(body);
    }
  }

  async #send(body) {
    const stamp = String(Math.floor(Date.now() / 1000));
    const signature = `v0=${createHmac('sha256', this.storm.config.slackSigningSecret).update(`v0:${stamp}:${body}`).digest('hex')}`;
    const headers = { 'content-type': 'application/json', 'x-slack-request-timestamp': stamp, 'x-slack-signature': signature };
    return (await this.storm.http('/slack/events', { method: 'POST', headers, body, ms: ANSWER_MS })).status;
  }

  /** What Lambda gave up during the storm, an operator sends again, as the runbook slack-files-dead-letters says. */
  async settle() {
    await this.storm.eventually('a reply to every file', async () => {
      const letters = (await this.storm.local('/_local/queues')).find((queue) => queue.name === 'slack-files-failures').visible;
      if (letters > 0) {
        this.#redriven += letters;
        await run(this.storm.tools.ichidoctl, ['dead-letters', 'redrive', 'slack', '--yes', '--endpoint-url', this.storm.url]);
      }
      const replied = await this.#replies();
      return letters === 0 && [...this.files].every(([file]) => replied.has(file));
    });
  }

  /** An event that was handled long ago. */
  async repeat() {
    if (this.#last) await this.#send(this.#last);
  }

  async #replies() {
    const replies = new Map();
    for (const { request } of await this.storm.outbox('slack')) {
      const { file } = (typeof request.metadata === 'string' ? JSON.parse(request.metadata) : request.metadata).event_payload;
      replies.set(file, (replies.get(file) ?? 0) + 1);
    }
    return replies;
  }

  async books(account) {
    const replies = await this.#replies();
    account.line('files uploaded, their events acknowledged', this.files.size);
    account.line('replies in threads', [...replies.values()].reduce((sum, count) => sum + count, 0));
    account.named('given up by Lambda during the storm and sent again by the operator', this.#redriven);
    for (const [file, acknowledged] of this.files) {
      const count = replies.get(file) ?? 0;
      if (!acknowledged) account.wrong(`the event of file ${file} was never acknowledged`);
      if (count !== 1) account.wrong(`file ${file} has ${count} replies`);
    }
    for (const file of replies.keys()) if (!this.files.has(file)) account.wrong(`there is a reply to ${file}, which nobody uploaded`);
  }
}
