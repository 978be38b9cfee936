// What the commands print of names and reasons that come from AWS.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { line, proven } from '../accept/step.ts';
import { harmless, harmlessJson, oneLine } from '../terminal.ts';
import { root } from '../template.ts';

const EVIL = 'a\u001b[31m\u009b31m\u007f\r\u061c\u200b\u200e\u2028\u202e\u2066\ufeff\u{e0041}b';
const SHOWN = 'a\\u{1b}[31m\\u{9b}31m\\u{7f}\\u{d}\\u{61c}\\u{200b}\\u{200e}\\u{2028}\\u{202e}\\u{2066}\\u{feff}\\u{e0041}b';

test('what a terminal obeys or does not show is shown as what it is', () => {
  assert.equal(harmless(EVIL), SHOWN);
  assert.equal(oneLine(EVIL), SHOWN);
  assert.equal(harmless('é\n\tあ'), 'é\n\tあ');
  assert.equal(oneLine('é\n\tあ'), 'é\\n\tあ');
});

test('JSON stays the same JSON', () => {
  const shown = harmlessJson(JSON.stringify([EVIL, 'é\n'], null, 2));
  assert.equal(harmless(shown), shown, 'nothing is left to obey');
  assert.deepEqual(JSON.parse(shown), [EVIL, 'é\n']);
});

test('what AWS says about a step cannot look like another step', () => {
  const said = line('alarms', proven('a\u001b[2K\nfailed             transfer')).split('\n');
  assert.equal(said.length, 2);
  assert.match(said[0]!, /^proven +alarms +a\\u\{1b\}\[2K$/);
  assert.match(said[1]!, /^ {39}failed/, 'a further line of a detail is indented');
});

test('the commands print through terminal.ts alone', () => {
  const files = ['infra/cli', 'infra/accept', 'infra/accept/steps'].flatMap((directory) =>
    fs.readdirSync(path.join(root, directory)).filter((name) => name.endsWith('.ts')).map((name) => path.join(directory, name)));
  assert.ok(files.length > 20, 'they are where they were');
  for (const file of files) {
    assert.doesNotMatch(fs.readFileSync(path.join(root, file), 'utf8'), /console\.|stdout\.write/, `${file} prints without terminal.ts`);
  }
});
