// A feed of GitHub's kind, on loopback.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Feed {
  url: string;
  /** How many times it was read. */
  reads(): number;
  /** Adds an entry with this title. */
  add(title: string, published?: Date): void;
  close(): void;
}

export async function startFeed(entryId: string, title = 'masutaka pushed to main in masutaka/feeds'): Promise<Feed> {
  let reads = 0;
  const more: string[] = [];
  const server = http.createServer((_request, response) => {
    reads += 1;
    response.setHeader('content-type', 'application/atom+xml; charset=utf-8');
    response.end(`<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en-US">
  <id>tag:github.com,2008:/masutaka.private</id>
  <title>Private Feed for masutaka</title>
  <updated>2026-01-01T00:00:00Z</updated>
  <entry>
    <id>${entryId}</id>
    <published>2026-01-01T00:00:00Z</published>
    <updated>2026-01-01T00:00:00Z</updated>
    <link type="text/html" rel="alternate" href="https://github.com/masutaka/feeds/compare/a...b"/>
    <title type="html">${title}</title>
    <author><name>masutaka</name></author>
  </entry>
${more.join('')}</feed>`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/masutaka.private.atom`,
    reads: () => reads,
    add: (title, published = new Date()) => {
      const n = more.length + 1;
      more.unshift(`<entry><id>${entryId}-${n}</id><published>${published.toISOString()}</published><link type="text/html" rel="alternate" href="https://github.com/masutaka/feeds/issues/${n}"/><title type="html">${title}</title><author><name>masutaka</name></author></entry>\n`);
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
