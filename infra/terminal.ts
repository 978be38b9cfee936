// What the commands print. Reasons, names and outputs come from AWS, where somebody else may have chosen them: nothing in them moves the
// cursor, changes colours, turns the direction of writing or is invisible. Such a character is shown as its escape.
// crates/telemetry/src/terminal.rs does the same for the programs.

/** Control characters but for tabs and line breaks, those that turn the direction of a text or end a line, and those that nobody sees. */
const OBEYED = /(?![\n\t])[\p{Cc}\p{Cf}\u2028\u2029]/gu;

const escape = (c: string) => `\\u{${c.codePointAt(0)!.toString(16)}}`;

/** Text of several lines. */
export const harmless = (text: string): string => text.replace(OBEYED, escape);

/** A name, or a reason of AWS: it cannot look like two lines. */
export const oneLine = (text: string): string => harmless(text).replaceAll('\n', '\\n');

/** Prints a line, or several of our own, for a person. */
export const say = (text: string): void => console.log(harmless(text));

/** The same on standard error. */
export const complain = (text: string): void => console.error(harmless(text));

/** Prints JSON, which stays the same JSON: outside of its strings there is nothing to escape. */
export const sayJson = (value: unknown, space?: number): void => console.log(harmlessJson(JSON.stringify(value, null, space)));

export const harmlessJson = (json: string): string =>
  json.replace(OBEYED, (c) => c.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''));
