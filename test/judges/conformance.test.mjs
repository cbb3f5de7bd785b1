// The protocol's conformance cases, restated (agui/testdata/conformance.json), put to the
// official client 1.0.0: what the table says must be what it does.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { HttpAgent } from 'agui1';

const cases = JSON.parse(readFileSync(new URL('../../agui/testdata/conformance.json', import.meta.url), 'utf8'));
const requests = [];
const complaints = [];
for (const level of ['warn', 'error']) {
  console[level] = (...words) => complaints.push(words.map(String).join(' '));
}

let server;

before(async () => {
  server = http.createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    requests.push(JSON.parse(body));
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    res.end(cases[Number(req.url.slice(1))].stream.map((e) => `data: ${JSON.stringify(e)}\n\n`).join(''));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
});

after(() => server.close());

// holds: lists are as long, and objects have at least the members named.
function holds(value, least, where = '') {
  if (Array.isArray(least)) {
    assert.equal(value?.length, least.length, `${where}: ${JSON.stringify(value)}`);
    least.forEach((l, i) => holds(value[i], l, `${where}/${i}`));
  } else if (least !== null && typeof least === 'object') {
    for (const [key, l] of Object.entries(least)) holds(value?.[key], l, `${where}/${key}`);
  } else {
    assert.deepEqual(value, least, where);
  }
}

cases.forEach((c, i) => {
  test(c.name, async () => {
    const peer = c.peer;
    class Agent extends HttpAgent {
      get maxProtocolVersion() {
        return peer ?? super.maxProtocolVersion;
      }
    }
    complaints.length = 0;
    const agent = new Agent({ url: `http://127.0.0.1:${server.address().port}/${i}`, threadId: 'harbour', initialMessages: structuredClone(c.input ?? []) });
    const types = [];
    let failed = '';
    const run = agent.runAgent({ runId: 'dawn' }, {
      onEvent: ({ event }) => { types.push(event.type); },
      onRunErrorEvent: ({ event }) => { failed = event.message; },
    });
    if (c.verdict === 'refused' && !c.next) {
      await assert.rejects(run);
      return;
    }
    await run; // the client of today takes what the next version refuses
    if (c.next) return;
    if (c.quiet) assert.deepEqual(complaints, []);
    if (c.warns) assert.notEqual(complaints.length, 0, 'no warning');
    const known = c.input?.length ?? 0;
    const messages = c.clientMessages ?? c.messages;
    if (messages) holds(agent.messages.slice(known), messages, 'messages');
    if ('clientState' in c || 'state' in c) holds(agent.state, 'clientState' in c ? c.clientState : c.state, 'state');
    if (c.types) assert.deepEqual(types, c.types);
    assert.equal(failed, c.error ?? '');
    const request = requests.at(-1);
    if (c.request) holds(request, c.request, 'request');
    for (const name of c.requestAbsent ?? []) assert.equal(name in request, false, name);
  });
});
