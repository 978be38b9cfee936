// What the functions declare about themselves: their names, their crates and the variables that they read.
//
// `ichido-local --functions` prints the declarations (`function::Definition`). A function that reads a variable which it
// does not declare fails to start, so a declaration is complete.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { root } from './template.ts';

export interface Declared {
  /** The name of the function, of its binary and of its directory under `target/lambda`. */
  name: string;
  crate: string;
  /** Every variable that it reads, apart from those that all functions read. */
  variables: string[];
}

interface Declarations {
  /** Variables that every function reads. */
  common: string[];
  functions: Declared[];
}

const BUILD = 'cargo build --locked --workspace --bin ichido-local';
const ANSWER_MS = 60_000;

/** Where `ichido-local` is: `ICHIDO_LOCAL`, or where cargo puts it. */
function binary(): string {
  const found = process.env.ICHIDO_LOCAL || path.join(process.env.CARGO_TARGET_DIR || path.join(root, 'target'), 'debug', 'ichido-local');
  if (!fs.existsSync(found)) throw new Error(`${found} does not exist. Build it with "${BUILD}", or set ICHIDO_LOCAL to its path.`);
  return found;
}

function read(): Declarations {
  const program = binary();
  let text: string;
  try {
    text = execFileSync(program, ['--functions'], { encoding: 'utf8', timeout: ANSWER_MS, stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw new Error(`"${program} --functions" failed. Is it older than the source? Build it again with "${BUILD}".`, { cause: error });
  }
  const { common, functions } = JSON.parse(text) as Declarations;
  if (!common?.length || !functions?.length) throw new Error(`"${program} --functions" printed no declarations:\n${text}`);
  return { common, functions: functions.sort((a, b) => a.name.localeCompare(b.name)) };
}

const declarations = read();

/** Every function, in the order of the names. */
export const declared: readonly Declared[] = declarations.functions;

/** Variables that every function reads. */
export const common: ReadonlySet<string> = new Set(declarations.common);
