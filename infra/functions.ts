// What the Rust code says about itself, read from its source: which binaries serve functions, which variables a crate reads.
//
// It relies on conventions, not on parsing Rust: variables are read with `vars.required("NAME")` and its siblings
// (`optional`, `parsed`, `one_of`, …), with the name as a literal, or from a constant `const NAME: &str = "NAME"`.
import fs from 'node:fs';
import path from 'node:path';
import { root } from './template.ts';

const crates = path.join(root, 'crates');

function sources(dir: string): string[] {
  if (!fs.existsSync(dir)) return [];
  return fs.readdirSync(dir, { withFileTypes: true }).flatMap((e) =>
    e.isDirectory() ? sources(path.join(dir, e.name)) : e.name.endsWith('.rs') ? [path.join(dir, e.name)] : []);
}

/** The text of a crate's source without comments, doc comments and the tests at the end of a file. */
export function sourceOf(crate: string): string {
  return sources(path.join(crates, crate, 'src'))
    .filter((f) => !/(^|[/_])tests?(\.rs|\/)/.test(path.relative(crates, f)))
    .map((f) => withoutTests(fs.readFileSync(f, 'utf8')))
    .join('\n');
}

function withoutTests(text: string): string {
  const code = text.replace(/^\s*\/\/.*$/gm, '');
  const tests = code.search(/^#\[cfg\(test\)\]\s*\nmod \w+ \{/m);
  return tests < 0 ? code : code.slice(0, tests);
}

/** Every binary that serves a function: its name and crate. */
export function functionBinaries(): { name: string; crate: string }[] {
  return fs.readdirSync(crates).flatMap((crate) => {
    const bin = path.join(crates, crate, 'src', 'bin');
    if (!fs.existsSync(bin)) return [];
    return fs.readdirSync(bin)
      .filter((f) => f.endsWith('.rs') && /\bfunction::serve\b|\bserve\(/.test(fs.readFileSync(path.join(bin, f), 'utf8')))
      .map((f) => ({ name: f.slice(0, -'.rs'.length), crate }));
  }).sort((a, b) => a.name.localeCompare(b.name));
}

/** Names of variables that a crate reads, and those it says `crates/function` reads for every function. */
export function variablesReadBy(crate: string): Set<string> {
  const text = sourceOf(crate);
  const constants = new Map([...text.matchAll(/const (\w+): &(?:'static )?str = "([A-Z][A-Z0-9_]*)"/g)].map((m) => [m[1]!, m[2]!]));
  const names = new Set<string>();
  // vars.required("X"), env.get("X"), reader.secret(NAME), also with the name on the next line
  for (const [, literal, constant] of text.matchAll(/\.(?:required|optional|parsed|one_of|list|flag|duration|secret_name|get|pattern|choice|bounded|\w+_of)(?:::<[^>]*>)?\(\s*(?:"([A-Z][A-Z0-9_]{2,})"|([A-Z][A-Z0-9_]{2,})\b)/g)) {
    if (literal) names.add(literal);
    else if (constants.has(constant!)) names.add(constants.get(constant!)!);
  }
  // a helper of the crate that takes the reader and the name: limit(&mut vars, "X", …)
  for (const [, literal] of text.matchAll(/\(\s*&mut \w*(?:vars|reader)\w*,\s*"([A-Z][A-Z0-9_]{2,})"/g)) names.add(literal!);
  return names;
}

/** What Lambda itself sets, and what the SDK reads. */
export const AMBIENT = /^(AWS_|_|RUST_|LAMBDA_)/;
