// The judges judged: a stream that is wrong must not pass. Each case is served by a server
// that does nothing but be wrong in this one way.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';

import { clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { cutAfter, parseFrames } from './lib/stream.mjs';

const started = { type: 'RUN_STARTED', threadId: 't', runId: 'r' };
const finished = { type: 'RUN_FINISHED', threadId: 't', runId: 'r' };
const opened = { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' };
const said = { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'x' };

let server;
let url;
let stream = '';

before(async () => {
  server = http.createServer((req, res) => res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end(stream));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${server.address().port}/`;
});

after(() => server.close());

const frame = (event) => `data: ${JSON.stringify(event)}\n\n`;

/** verdict plays events to a client as every test does: it throws where a judge objects. */
async function verdict(client, events) {
  stream = events.map(frame).join('');
  finishedWell(await new Talk(client, { url }).say('x'));
  noComplaints();
}

/** objects: the client throws, or complains on the console. */
async function objects(client, events) {
  await assert.rejects(verdict(client, events));
  try {
    noComplaints();
  } catch {
    // forget what the client said besides throwing
  }
}

for (const client of clients) {
  describe(client.name, () => {
    test('a good stream passes', () => verdict(client, [started, opened, said, { type: 'TEXT_MESSAGE_END', messageId: 'm' }, finished]));
    test('a message left open', () => objects(client, [started, opened, said, finished]));
    test('words for a message never opened', () => objects(client, [started, said, finished]));
    test('nothing before RUN_STARTED', () => objects(client, [opened, finished]));
    test('a Run that never ends', () => objects(client, [started]));
    test('an unknown event', () => objects(client, [started, { type: 'NEW_THING' }, finished]));
    test('a patch that fits nothing', () => objects(client, [started, { type: 'STATE_DELTA', delta: [{ op: 'replace', path: '/no/where', value: 1 }] }, finished]));
    test('a null where nothing belongs', () => objects(client, [started, { ...opened, name: null }, finished]));
  });
}

test('1.0 objects to a retired event', () => objects(clients[0], [started, { type: 'THINKING_START', title: 't' }, { type: 'THINKING_END' }, finished]));

test('0.x is not spared the outcome it does not know', () => objects(clients[1], [started, { ...finished, outcome: { type: 'cancelled' } }]));

test('cutAfter gives so many events and no more', async () => {
  stream = `: ping\n\n${[started, opened, said, said, finished].map(frame).join('')}`;
  for (let n = 0; n <= 5; n += 1) {
    const text = await (await cutAfter(n)(url, {})).text();
    assert.equal(parseFrames(text).length, n);
  }
});

test('parseFrames is strict', () => {
  assert.deepEqual(parseFrames('id: 1\ndata: {}\n\n: ping\n\ndata: {}\n\n').map((f) => f.id), ['1', undefined]);
  for (const bad of ['data: {}\n', 'data: {}\r\n\r\n', 'event: x\ndata: {}\n\n', 'id: x\ndata: {}\n\n', 'data: {\n\n', 'data: {}\ndata: {}\n\n']) {
    assert.throws(() => parseFrames(bad), undefined, JSON.stringify(bad));
  }
});
