import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Parser, readEvents } from '../static/sse.js';

const stream = ': ping\n\nid: 1\ndata: {"a":1}\n\ndata: no id\n\nid:2\nevent: x\ndata:two\ndata: lines\n\nid: 3\ndata: cut off\n';
const want = [
  { id: '1', data: '{"a":1}' },
  { id: '', data: 'no id' },
  { id: '2', data: 'two\nlines' },
];

test('any cut between two pieces gives the same events', () => {
  for (let i = 0; i <= stream.length; i++) {
    const p = new Parser();
    assert.deepEqual([...p.push(stream.slice(0, i)), ...p.push(stream.slice(i))], want, `cut at ${i}`);
  }
});

test('CRLF is read like LF', () => {
  assert.deepEqual(new Parser().push(stream.replaceAll('\n', '\r\n')), want);
});

test('UTF-8 split inside a character', async () => {
  const bytes = new TextEncoder().encode('data: 好的\n\n');
  const body = new ReadableStream({
    start(c) {
      for (const b of bytes) c.enqueue(Uint8Array.of(b));
      c.close();
    },
  });
  const got = [];
  for await (const e of readEvents(body)) got.push(e.data);
  assert.deepEqual(got, ['好的']);
});

test('leaving early closes the body', async () => {
  let closed = false;
  const body = new ReadableStream({
    pull: (c) => c.enqueue(new TextEncoder().encode('data: x\n\n')),
    cancel: () => { closed = true; },
  });
  for await (const e of readEvents(body)) {
    assert.equal(e.data, 'x');
    break;
  }
  await new Promise((r) => setImmediate(r));
  assert.ok(closed);
});
