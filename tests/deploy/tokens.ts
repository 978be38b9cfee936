// An issuer of tokens, and what it signs.
import crypto from 'node:crypto';

const { publicKey, privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });

/** The issuer's public keys, as the deployed function gets them. */
export const keySet = JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'test', alg: 'ES256', use: 'sig' }] });

/** A token for a caller; issuer and audience are the template's defaults. */
export function tokenFor(did: string): string {
  const now = Math.floor(Date.now() / 1000);
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const text = `${encode({ alg: 'ES256', typ: 'JWT', kid: 'test' })}.${encode({ iss: 'https://issuer.localhost', aud: 'tokens', sub: did, iat: now, exp: now + 300 })}`;
  return `${text}.${crypto.sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}
