// The npm package eventsource, which is what browsers have as EventSource, on GET …/events.
//
// It only reads: it has no POST, so it neither asks, answers, stops, regenerates, edits nor
// sends tools, state or pictures. What those leave in the log it reads like everything else.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { EventSource } from 'eventsource';

import { Program } from './lib/program.mjs';
import { cutAfter } from './lib/stream.mjs';
import { fetch } from './lib/token.mjs';

let program;

before(async () => {
  program = await Program.start();
});

after(() => program?.close());

/** prompt starts a Run, leaves it to others to read, and gives the URL of its events. */
async function prompt(content) {
  const response = await fetch(`${program.url}/api/agui/chat`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ protocolVersion: '1.0', threadId: '', runId: '', messages: [{ id: 'u', role: 'user', content }] }),
  });
  assert.equal(response.status, 200);
  await response.body.cancel();
  return `${program.url}/api/runs/${response.headers.get('x-run-id')}/events`;
}

/** soon has the client come back at once: the server asks it to wait about three seconds, and not all at the same time. */
function soon(response) {
  if (response.status !== 200) return response;
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  const hasten = new TransformStream({
    transform: (chunk, controller) => controller.enqueue(encoder.encode(decoder.decode(chunk, { stream: true }).replace(/^retry: \d+$/m, 'retry: 1'))),
  });
  response.body.pipeTo(hasten.writable).catch(() => {});
  return new Response(hasten.readable, { status: 200, headers: response.headers });
}

/** read collects a Run until the server says that nothing is missing. With n, each connection is cut after n events. */
function read(url, n, onEvent) {
  const found = { events: [], connections: 0 };
  const fetchOne = n ? cutAfter(n + 1) : fetch; // the first block is the server's retry;
  return new Promise((resolve) => {
    const source = new EventSource(url, {
      fetch: async (...request) => {
        found.connections += 1;
        return soon(await fetchOne(...request));
      },
    });
    source.onmessage = ({ lastEventId, data }) => {
      found.events.push({ id: lastEventId, event: JSON.parse(data) });
      onEvent?.(found.events.length);
    };
    source.onerror = ({ code }) => {
      if (source.readyState !== EventSource.CLOSED) return;
      found.closedWith = code;
      resolve(found);
    };
  });
}

/** log is what is kept of a Run, read by hand. */
async function log(url) {
  const text = await (await fetch(url, { headers: { Accept: 'text/event-stream' } })).text();
  return Array.from(text.matchAll(/^id: (\d+)\ndata: (.*)$/gm), ([, id, data]) => ({ id, event: JSON.parse(data) }));
}

for (const part of ['text', 'think', 'tool', 'state', 'activity', 'ask', 'asks', 'all', 'error', 'flood 30']) {
  test(`${part}: cut after every event, and 204 after the last`, async () => {
    const url = await prompt(part);
    const found = await read(url, 1);
    assert.deepEqual(found.events, await log(url));
    assert.equal(found.closedWith, 204);
    assert.equal(found.connections, found.events.length + 1);
  });
}

test('the server is killed in mid-answer: the client comes back by itself and hears the end', async () => {
  const url = await prompt('slow');
  const found = await read(url, 0, (n) => {
    if (n === 3) program.kill().then(() => program.start());
  });
  assert.deepEqual(found.events, await log(url));
  assert.equal(found.events.at(-1).event.type, 'RUN_ERROR');
  assert.equal(found.closedWith, 204);
  assert.ok(found.connections >= 3, `${found.connections} connections`);
});
