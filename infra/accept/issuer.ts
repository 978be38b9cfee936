// The issuer of tokens of the local AWS. Its public key is a secret of the deployment; its private key stays in a file that only its owner can read.
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { directory } from '../cli/world.ts';

const KEY_ID = 'local';
/** How long a token is good. */
const SECONDS = 300;

export const issuerFile = () => path.join(directory(), 'issuer-local.json');

/** Makes a new key, keeps it, and returns the public half as a key set. */
export function newKeySet(): string {
  const { publicKey, privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
  fs.mkdirSync(path.dirname(issuerFile()), { recursive: true });
  fs.rmSync(issuerFile(), { force: true }); // a file that exists would keep its mode
  fs.writeFileSync(issuerFile(), JSON.stringify(privateKey.export({ format: 'jwk' })), { mode: 0o600 });
  return JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: KEY_ID, alg: 'ES256', use: 'sig' }] });
}

/** A token for a caller; issuer and audience are the template's defaults. */
export function tokenFor(did: string): string {
  const key = crypto.createPrivateKey({ key: JSON.parse(fs.readFileSync(issuerFile(), 'utf8')), format: 'jwk' });
  const now = Math.floor(Date.now() / 1000);
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const text = `${encode({ alg: 'ES256', typ: 'JWT', kid: KEY_ID })}.${encode({ iss: 'https://issuer.localhost', aud: 'tokens', sub: did, iat: now, exp: now + SECONDS })}`;
  return `${text}.${crypto.sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}
