// The text of a crate's Rust source, for what a function cannot declare: which attributes it names and which AWS calls it makes.
import fs from 'node:fs';
import path from 'node:path';
import { infra, root } from '../template.ts';

const crates = path.join(root, 'crates');

/** The source of a crate without comments, and without its tests. */
export function sourceOf(crate: string): string {
  return files(path.join(crates, crate, 'src'))
    .filter((f) => !/(^|[/_])tests?(\.rs|\/)/.test(path.relative(crates, f)))
    .map((f) => withoutTests(fs.readFileSync(f, 'utf8')))
    .join('\n');
}

/** The directory of another crate that a function is built from; undefined if it is built from the crate that declares it. */
export function otherCrate(name: string): string | undefined {
  if (name !== 'slack-files') return undefined;
  const dir = fs.readFileSync(path.join(infra, 'slack-files-crate'), 'utf8').trim();
  return dir === 'crates/slack' ? undefined : dir;
}

/** The variables that another crate names in its source. It declares them there, but no binary of this workspace prints them. */
export function variablesNamedIn(dir: string): string[] {
  const code = files(path.join(root, dir, 'src')).map((f) => withoutTests(fs.readFileSync(f, 'utf8'))).join('\n');
  return [...code.matchAll(/"([A-Z][A-Z0-9_]{2,})"/g)].map((m) => m[1]!);
}

/** Every file `crates/CRATE/src/bin/NAME.rs`. */
export function binaries(): { name: string; crate: string }[] {
  return fs.readdirSync(crates)
    .flatMap((crate) => files(path.join(crates, crate, 'src', 'bin')).map((f) => ({ name: path.basename(f, '.rs'), crate })))
    .sort((a, b) => a.name.localeCompare(b.name));
}

function files(dir: string): string[] {
  if (!fs.existsSync(dir)) return [];
  return fs.readdirSync(dir, { withFileTypes: true }).flatMap((e) =>
    e.isDirectory() ? files(path.join(dir, e.name)) : e.name.endsWith('.rs') ? [path.join(dir, e.name)] : []);
}

function withoutTests(text: string): string {
  const code = text.replace(/^\s*\/\/.*$/gm, '');
  const tests = code.search(/^#\[cfg\(test\)\]\s*\nmod \w+ \{/m);
  return tests < 0 ? code : code.slice(0, tests);
}
