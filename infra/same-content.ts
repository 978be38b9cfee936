// Where a file whose content was handled before gets a link instead (crates/slack/README.md, "The same content again").
import { type Environment } from './environments.ts';

/** The channels, and for how long a content is known. */
export interface SameContent {
  /** Ids of channels, or `'*'` for all of them. */
  channels: readonly string[] | '*';
  /** From 1 to 720; 24 if absent. */
  hours?: number;
}

const CHANNEL = /^[CDG][A-Z0-9]+$/;
/** The function refuses to start with more. */
const MOST_HOURS = 30 * 24;

/** The parameters of slack.yaml. The setting is wrong if this throws. */
export function sameContentParameters(environment: Environment): Record<string, string | number> {
  const setting = environment.sameContent;
  if (setting === undefined) return {};
  const { channels, hours = 24 } = setting;
  const problems = [];
  if (channels !== '*') {
    if (!Array.isArray(channels) || channels.length === 0) problems.push("channels is a list of ids of channels, or '*'");
    else for (const id of channels) if (!CHANNEL.test(id)) problems.push(`channels has the id of a channel, like C0123456789, not ${JSON.stringify(id)}`);
  }
  if (!Number.isInteger(hours) || hours < 1 || hours > MOST_HOURS) problems.push(`hours is a whole number from 1 to ${MOST_HOURS}; it is ${hours}`);
  if (problems.length > 0) throw new Error(`sameContent of ${environment.name} is wrong:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
  return { SlackSameContentChannels: channels === '*' ? channels : channels.join(','), SlackSameContentHours: hours };
}
