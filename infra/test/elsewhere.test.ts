// Every environment in somebody else's account and in other regions: docs/deployment.md asks to set the account, and the region is theirs to choose.
// In a file of its own, because cdk-nag takes seconds for each and node runs files side by side.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { environments } from '../environments.ts';
import { auditFresh, findings, names } from './synth.ts';

const ACCOUNT = '123456789012';
const PLACES = [{ account: ACCOUNT }, { account: ACCOUNT, region: 'eu-west-1' }, { region: 'us-east-1' }];

for (const name of names) {
  for (const place of PLACES) {
    test(`cdk-nag finds nothing unexplained in ${name} with ${JSON.stringify(place)}`, () => {
      assert.deepEqual(findings(auditFresh({ ...environments[name], ...place })), []);
    });
  }
}
