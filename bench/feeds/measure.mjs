// Parsing and diffing with rss-parser: prints the median in microseconds, the entries, and how many of them are new.
import fs from 'node:fs';
import Parser from 'rss-parser';

const WARM_UP = 50;
const ROUNDS = 200;
const text = fs.readFileSync(process.argv[2], 'utf8');
const id = (item) => item.id || item.guid || item['rdf:about'] || item.link;
// One parser, as a warm Lambda would have.
const parser = new Parser({ customFields: { item: ['dc:creator', 'content:encoded'] } });
const known = new Set((await parser.parseString(text)).items.slice(1).map(id));
const times = [];
let entries = 0;
let fresh = 0;
for (let round = 0; round < WARM_UP + ROUNDS; round++) {
  const started = process.hrtime.bigint();
  const feed = await parser.parseString(text);
  entries = feed.items.length;
  fresh = feed.items.filter((item) => !known.has(id(item))).length;
  if (round >= WARM_UP) times.push(Number(process.hrtime.bigint() - started) / 1e3);
}
times.sort((a, b) => a - b);
console.log(times[times.length >> 1], entries, fresh);
