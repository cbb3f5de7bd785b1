// A graph of LangGraph behind @ag-ui/langgraph (langgraph.mjs, graph.mjs).

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';

import { judge } from './judge.mjs';

judge({
  pieces: true, state: true, asksFreely: true, told: !process.env.OUTCOME,
  asks: ['send_email', 'request_permission'], message: /send_email/, declined: /"declined":"ada@example.org"/,
});

// LangGraph repeats its whole state, and so the conversation, after each step: in RAW, in rawEvent and in the state.
test('a turn is as large in the log after twelve turns as after one', async () => {
  const threadId = randomUUID();
  const sizes = [];
  for (let n = 0; n < 12; n++) {
    const response = await fetch(`${process.env.AQUEDUCT_URL}/api/agui/chat`, {
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
