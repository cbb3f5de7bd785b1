// An agent with a memory of its own, behind Aqueduct and without it: a prompt after a tool call, and after two at once, is
// answered, the model sees the same conversation, and a client has the same messages, live as joined.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HttpAgent as HttpAgent0 } from 'agui0';
import { HttpAgent as HttpAgent1 } from 'agui1';

const url = `${process.env.AQUEDUCT_URL}/api/agui/chat`;
const complaints = [];
for (const level of ['warn', 'error']) console[level] = (...words) => complaints.push(words.map(String).join(' '));

const words = ['weather please', 'and now?', 'both please', 'thanks', 'both again', 'bye'];

/** A conversation: what the model saw at each end, and the client's messages, without ids and without what is spelled otherwise. */
async function talk(HttpAgent, url) {
  const agent = new HttpAgent({ url, threadId: randomUUID() });
  const saw = [];
  for (const content of words) {
    agent.addMessage({ id: randomUUID(), role: 'user', content });
    let failed;
    await agent.runAgent({ runId: randomUUID() }, { onRunErrorEvent: ({ event }) => { failed = event.message; } });
    assert.equal(failed, undefined, `${content}: ${failed}`);
    saw.push(agent.messages.findLast((m) => m.role === 'assistant' && m.content)?.content);
  }
  return { agent, saw };
}

const read = (messages) => messages.map((m) => [m.role, m.content ?? '', ...(m.toolCalls ?? []).map((c) => [c.function.name, JSON.parse(c.function.arguments)])]);
const spoken = (messages) => read(messages).filter(([role]) => role !== 'reasoning');

for (const [name, HttpAgent] of [['@ag-ui/client 1.0.0', HttpAgent1], ['@ag-ui/client 0.0.59', HttpAgent0]]) {
  test(`${name}: every prompt is answered, and the model sees what it sees direct`, async () => {
    const direct = await talk(HttpAgent, process.env.AGENT_URL);
    complaints.splice(0);
    const through = await talk(HttpAgent, url);
    assert.deepEqual(complaints.splice(0), [], 'the client complains');
    assert.deepEqual(through.saw, direct.saw);
    const joined = new HttpAgent({ url, threadId: through.agent.threadId });
    await joined.runAgent({ runId: randomUUID() });
    assert.deepEqual(complaints.splice(0), [], 'the client complains of a join');
    const live = spoken(through.agent.messages);
    assert.deepEqual(spoken(joined.messages), live, 'who joins reads something else than who was there');
    const sorted = (list) => list.map((m) => JSON.stringify(m)).sort();
    assert.deepEqual(sorted(live), sorted(spoken(direct.agent.messages)), 'the messages are others than direct');
  });
}
