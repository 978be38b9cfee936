// Events as Slack sends and signs them.
import crypto from 'node:crypto';

/** A message with one file, as the Events API sends it. */
export function fileEvent(eventId: string, fileId: string, seconds: number, channel = 'C0001', ts = `${seconds}.000200`): string {
  return JSON.stringify({
    token: 'unused', team_id: 'T0001', api_app_id: 'A0001', type: 'event_callback', event_id: eventId, event_time: seconds,
    event: {
      type: 'message', subtype: 'file_share', channel, user: 'U0001', text: 'minutes', ts, channel_type: 'channel',
      files: [{ id: fileId, name: 'minutes.pdf', mimetype: 'application/pdf', filetype: 'pdf', size: 12_345 }],
    },
  });
}

export function sign(secret: string, body: string, seconds: number): Record<string, string> {
  const signature = crypto.createHmac('sha256', secret).update(`v0:${seconds}:${body}`).digest('hex');
  return { 'content-type': 'application/json', 'x-slack-request-timestamp': String(seconds), 'x-slack-signature': `v0=${signature}` };
}
