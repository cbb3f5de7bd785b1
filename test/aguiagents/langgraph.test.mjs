// A graph of LangGraph behind @ag-ui/langgraph (langgraph.mjs, graph.mjs).

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';

import { judge } from './judge.mjs';
import { compare, scenarios } from './scenarios.mjs';

judge({
  pieces: true, state: true, asksFreely: true, told: true,
  asks: ['send_email', 'request_input'], message: /send_email/, declined: /"declined":"ada@example.org"/,
});

compare({
  all: {
    ...scenarios,
    'a question with a free answer': async (p) => {
      await p.say('ask');
      await p.decides('Ada');
      await p.say('bye');
    },
  },
  loose: ['edit'], // its memory keeps what was edited, and its snapshots bring that back
  cannot: { 'a tool of the page that the person passes over': /STEP_FINISHED/ }, // the model refuses a call without a result
});

// LangGraph repeats its whole state, and so the conversation, after each step: in RAW, in rawEvent and in the state.
test('a turn is as large in the log after twelve turns as after one', async () => {
  const threadId = randomUUID();
  const sizes = [];
  for (let n = 0; n < 12; n++) {
    const response = await fetch(`${process.env.AQUEDUCT_URL}/api/agui/chat?agent=${process.env.AGENT}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ threadId, runId: randomUUID(), protocolVersion: '1.0', messages: [{ id: randomUUID(), role: 'user', content: 'weather please' }] }),
    });
    const events = await response.text();
    assert.match(events, /"RUN_FINISHED"/);
    sizes.push(events.length);
  }
  assert.ok(sizes.at(-1) < 2 * sizes[0], `the turns have ${sizes} bytes`);
});
