// A transfer and its repeat through the HTTP API move money once.
import fs from 'node:fs';
import { issuerFile, tokenFor } from '../issuer.ts';
import { request, type Answer } from '../http.ts';
import { must, notHere, proven, type Step } from '../step.ts';
import type { World } from '../world.ts';

export const transfer: Step = {
  name: 'transfer',
  claim: 'a transfer and its repeat move money once',
  async prove(world) {
    const tokens = bearers(world);
    if (tokens === undefined) return notHere('set ACCEPT_SENDER_TOKEN and ACCEPT_RECIPIENT_TOKEN to tokens of two accounts, from your issuer');
    const [sender, recipient] = tokens.map((token) => ({ token, did: subject(token) })) as [Caller, Caller];
    const ask = (caller: Caller, route: string, body?: object | string) =>
      request(new URL(`${world.output('TokensUrlPath')}${route}`, world.output('HttpApiUrl')), { authorization: `Bearer ${caller.token}`, 'content-type': 'application/json' }, typeof body === 'object' ? JSON.stringify(body) : body);
    const balance = async (caller: Caller) => {
      const answer = good(await ask(caller, `/balance/${caller.did}`));
      return (JSON.parse(answer.text) as { balance: string }).balance;
    };
    for (const caller of [sender, recipient]) good(await ask(caller, '/accounts', ''));
    const before = await balance(recipient);
    const send = (from: Caller, to: Caller, key: string) => ask(from, '/transfer', { recipientDid: to.did, amount: '1', message: 'make accept', idempotencyKey: key });
    const first = good(await send(sender, recipient, world.id));
    world.afterwards('send the amount back', async () => good(await send(recipient, sender, `${world.id}-back`)));
    const second = good(await send(sender, recipient, world.id));
    must(second.text === first.text, `the repeat got another answer: ${first.text}, then ${second.text}`);
    must(second.headers['idempotency-replayed'] === 'true', 'the repeat was not answered as a repeat');
    const after = await balance(recipient);
    must(minor(after) - minor(before) === minor('1'), `the recipient had ${before} and has ${after}: the transfer of 1 did not arrive once`);
    return proven(`a transfer that was sent twice moved 1, and it goes back${world.place('local AWS')}`);
  },
};

interface Caller { token: string; did: string }

/** Tokens of two accounts. The local AWS got the keys of an issuer whose private key is here. */
function bearers(world: World): [string, string] | undefined {
  const { ACCEPT_SENDER_TOKEN: sender, ACCEPT_RECIPIENT_TOKEN: recipient } = process.env;
  if (sender && recipient) return [sender, recipient];
  if (!world.isLocal || !fs.existsSync(issuerFile())) return undefined;
  return [tokenFor('did:key:z6MkAcceptSender'), tokenFor('did:key:z6MkAcceptRecipient')];
}

function subject(token: string): string {
  const { sub } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub: string };
  return sub;
}

function good(answer: Answer): Answer {
  must(answer.status < 300, `the token API answered ${answer.status}: ${answer.text}`);
  return answer;
}

/** An amount without its decimal point, as an integer with six decimals. */
function minor(amount: string): bigint {
  const [whole, fraction = ''] = amount.split('.');
  return BigInt(`${whole}${fraction.padEnd(6, '0').slice(0, 6)}`);
}
