// AWS's linter sees every array and string of the resolvers, and crates/appsync refuses what it refuses.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import appsync from '@aws-appsync/eslint-plugin';
import { ESLint } from 'eslint';
import ts from 'typescript';

const infra = path.join(import.meta.dirname, '..', '..');
const eslint = new ESLint({
  cwd: infra,
  overrideConfigFile: path.join(infra, 'lint', 'eslint.config.js'),
  // Where the variable CI is set, the parser would read the types from the file on disk instead of the text that it is given.
  overrideConfig: { files: ['appsync/**/*.js'], languageOptions: { parserOptions: { disallowAutomaticSingleRunInference: true } } },
});
/** Cases of crates/appsync/tests/refusals.rs. */
const refusals = JSON.parse(fs.readFileSync(path.join(infra, '..', 'crates', 'appsync', 'tests', 'refusals.json'), 'utf8'));

/** What AWS's linter says of a code in the place of a resolver, as `rule: message`. */
async function linted(code, file = 'resolvers/pass.js') {
  const [result] = await eslint.lintText(code, { filePath: path.join(infra, 'appsync', file) });
  return result.messages.map(({ ruleId, message }) => `${String(ruleId).replace('@aws-appsync/', '')}: ${message}`);
}

test('every method that a resolver calls is one of a known type', () => {
  const config = ts.getParsedCommandLineOfConfigFile(path.join(infra, 'lint', 'tsconfig.json'), {}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: assert.fail });
  const program = ts.createProgram(config.fileNames, config.options);
  const checker = program.getTypeChecker();
  const unknown = [];
  let calls = 0;
  for (const source of program.getSourceFiles().filter((file) => file.fileName.endsWith('.js') && file.fileName.includes('/appsync/'))) {
    const visit = (node) => {
      if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
        calls += 1;
        const type = checker.getTypeAtLocation(node.expression.expression);
        if (type.flags & ts.TypeFlags.Any) unknown.push(`${path.basename(source.fileName)}: ${node.expression.getText()}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  assert.deepEqual(unknown, []);
  assert.ok(calls > 100, `only ${calls} calls`);
});

test('a function that is given to sort, and a method that AppSync lacks, are refused in data of the context', async () => {
  for (const [file, line, found] of [
    ['functions/listMembers.js', 'ctx.stash.members.sort((a, b) => a.ttl - b.ttl);', 'no-function-passing: Functions can not be passed as an argument'],
    ['functions/listGroups.js', 'ctx.result.items.sort((a, b) => a.expiresAt - b.expiresAt);', 'no-function-passing: Functions can not be passed as an argument'],
    ['resolvers/getEventsSince.js', 'ctx.stash.events.sort((a, b) => a.sequence - b.sequence);', 'no-function-passing: Functions can not be passed as an argument'],
    ['resolvers/publishEvents.js', 'events.keys();', 'no-disallowed-methods: Method Array.keys is not implemented'],
    ['resolvers/joinGroup.js', 'groupId.padStart(3);', 'no-disallowed-methods: Method String.padStart is not implemented'],
  ]) {
    const code = fs.readFileSync(path.join(infra, 'appsync', file), 'utf8');
    assert.deepEqual(await linted(code, file), [], file);
    const end = code.lastIndexOf('  return ');
    assert.deepEqual(await linted(`${code.slice(0, end)}  ${line}\n${code.slice(end)}`, file), [found], file);
  }
});

test('every rule of the linter has a case in crates/appsync, in its words', async () => {
  const cases = refusals.filter(({ rule }) => rule);
  assert.deepEqual([...new Set(cases.map(({ rule }) => rule))].sort(), Object.keys(appsync.configs.recommended.rules).map((rule) => rule.replace('@aws-appsync/', '')).sort());
  for (const { rule, code, messages } of cases) {
    const found = await linted(code);
    for (const message of messages) {
      assert.ok(found.some((one) => one.endsWith(`: ${message}`)), `${code}\n${message}\n${found}`);
    }
    assert.ok(found.some((one) => one.startsWith(`${rule}: `)), `${code}\n${rule}\n${found}`);
  }
});
