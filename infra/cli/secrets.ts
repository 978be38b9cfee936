// make secrets: sets the secrets of an environment in SSM, without echo and without a trace in the shell's history.
//
//   ENV=…              the environment
//   SECRET=/name       only this one, also if it is set already (rotation); without it, those that are missing
// On a terminal it asks. In a pipeline it reads one line per secret from standard input, in the order in which it lists them.
import crypto from 'node:crypto';
import readline from 'node:readline';
import { Writable } from 'node:stream';
import { PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import type { Environment } from '../environments.ts';
import { newKeySet } from '../accept/issuer.ts';
import { SECRETS_MANAGER } from '../template.ts';
import { say } from '../terminal.ts';
import { missing } from './stored.ts';
import { account, described, environment, Refusal, run, useEnvironment } from './world.ts';

/** What SSM stores in one parameter, in bytes. Up to half of it is free; a larger one is an advanced parameter, which costs $0.05 per month. */
const LARGEST = 8192;

async function main() {
  const env = environment();
  useEnvironment(env);
  await account(env);
  const { secrets, unused } = described(env);
  const unset = await missing(secrets.map((s) => s.name));
  for (const s of secrets) say(`${unset.includes(s.name) ? 'missing' : 'set    '}  ${s.name}   ${s.description}`);

  const only = process.env.SECRET;
  if (only && ![...secrets, ...unused].some((s) => s.name === only)) throw new Refusal(`${env.name} has no secret ${only}`);
  const wanted = [...secrets, ...unused].filter((s) => (only ? s.name === only : unset.includes(s.name)));
  if (wanted.length === 0) {
    say('\nAll secrets are set. SECRET=/name replaces one.');
    return;
  }
  const foreign = wanted.filter((s) => s.name.startsWith(SECRETS_MANAGER));
  if (foreign.length > 0) throw new Refusal(`Set these in Secrets Manager, where you chose to keep them: ${foreign.map((s) => s.name).join(', ')}`);

  say('');
  const ask = asker();
  for (const { name } of wanted) {
    const value = await ask(`${name} (your input is hidden; an empty line skips it): `);
    if (value === '') continue;
    const { Tier } = await store(env, name, value);
    say(`set      ${name}${Tier === 'Advanced' ? '   (more than 4 KB: an advanced parameter, $0.05 per month)' : ''}`);
  }
  ask.close();
}

/** Stores a secret, encrypted with the environment's key. SSM makes it an advanced parameter only if it has to. */
function store(env: Environment, name: string, value: string) {
  const bytes = Buffer.byteLength(value);
  if (bytes > LARGEST) {
    throw new Refusal(`The value of ${name} has ${bytes} bytes; SSM stores at most ${LARGEST}. Keep it in Secrets Manager, which stores 65536 (docs/deployment.md).`);
  }
  return new SSMClient({}).send(new PutParameterCommand({ Name: name, Value: value, Type: 'SecureString', Tier: 'Intelligent-Tiering', KeyId: env.secretsKey, Overwrite: true }));
}

/** Reads lines without echo. */
function asker() {
  const terminal = process.stdin.isTTY === true;
  // readline echoes to its output, so its output discards everything.
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const reader = readline.createInterface({ input: process.stdin, output: silent, terminal });
  const lines = reader[Symbol.asyncIterator]();
  reader.on('SIGINT', () => process.exit(130));
  const ask = async (question: string): Promise<string> => {
    if (terminal) process.stderr.write(question);
    const { value, done } = await lines.next();
    if (terminal) process.stderr.write('\n');
    return done ? '' : String(value).trim();
  };
  return Object.assign(ask, { close: () => reader.close() });
}

/** Values for the local AWS: random, or those of a variable (for tests). */
export async function seedLocalSecrets(env: Environment) {
  const { secrets: used, unused } = described(env);
  const secrets = [...used, ...unused];
  const unset = await missing(secrets.map((s) => s.name));
  for (const { name, parameter } of secrets.filter((s) => unset.includes(s.name))) {
    await store(env, name, process.env[`LOCAL_${parameter}`] ?? localValue(parameter));
  }
}

/** A value of the right form: a URL for a feed, a key set for the issuer's keys, random text for the rest. */
function localValue(parameter: string): string {
  if (/Jwt|Jwks/.test(parameter)) return newKeySet();
  return /Url/.test(parameter) ? 'https://feeds.invalid/feed.xml' : crypto.randomBytes(24).toString('hex');
}

if (process.argv[1]?.endsWith('secrets.ts')) run(main);
