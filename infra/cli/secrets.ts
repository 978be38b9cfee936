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
import { SECRETS_MANAGER } from '../template.ts';
import { account, described, environment, missingSecrets, Refusal, run, useEnvironment } from './world.ts';

async function main() {
  const env = environment();
  useEnvironment(env);
  await account(env);
  const { secrets } = described(env);
  const missing = await missingSecrets(secrets.map((s) => s.name));
  for (const s of secrets) console.log(`${missing.includes(s.name) ? 'missing' : 'set    '}  ${s.name}   ${s.description}`);

  const only = process.env.SECRET;
  if (only && !secrets.some((s) => s.name === only)) throw new Refusal(`${env.name} has no secret ${only}`);
  const wanted = secrets.filter((s) => (only ? s.name === only : missing.includes(s.name)));
  if (wanted.length === 0) {
    console.log('\nAll secrets are set. SECRET=/name replaces one.');
    return;
  }
  const foreign = wanted.filter((s) => s.name.startsWith(SECRETS_MANAGER));
  if (foreign.length > 0) throw new Refusal(`Set these in Secrets Manager, where you chose to keep them: ${foreign.map((s) => s.name).join(', ')}`);

  console.log('');
  const ssm = new SSMClient({});
  const ask = asker();
  for (const { name } of wanted) {
    const value = await ask(`${name} (your input is hidden; an empty line skips it): `);
    if (value === '') continue;
    await ssm.send(new PutParameterCommand({ Name: name, Value: value, Type: 'SecureString', Overwrite: true }));
    console.log(`set      ${name}`);
  }
  ask.close();
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
  const { secrets } = described(env);
  const missing = await missingSecrets(secrets.map((s) => s.name));
  const ssm = new SSMClient({});
  for (const { name, parameter } of secrets.filter((s) => missing.includes(s.name))) {
    const value = process.env[`LOCAL_${parameter}`] ?? localValue(parameter);
    await ssm.send(new PutParameterCommand({ Name: name, Value: value, Type: 'SecureString', Overwrite: true }));
  }
}

/** A value of the right form: a URL for a feed, a key set for the issuer's keys, random text for the rest. */
function localValue(parameter: string): string {
  if (/Jwt|Jwks/.test(parameter)) {
    const { publicKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
    return JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'local', alg: 'ES256', use: 'sig' }] });
  }
  return /Url|Feed/.test(parameter) ? 'https://feeds.invalid/feed.xml' : crypto.randomBytes(24).toString('hex');
}

if (process.argv[1]?.endsWith('secrets.ts')) run(main);
