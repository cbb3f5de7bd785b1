// Both official clients begin a thread with a history of their own: it stays, and whoever joins has it.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';

import { clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { atRest } from './lib/server.mjs';

afterEach(noComplaints);

const seed = () => [
  { id: 'sys', role: 'system', content: 'Be brief.' },
  { id: 'greet', role: 'assistant', content: 'Ahoy!' },
  { id: 'q0', role: 'user', content: 'What is the weather?' },
  { id: 'think', role: 'reasoning', content: 'I look it up.' },
  { id: 'call', role: 'assistant', toolCalls: [{ id: 'c0', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }] },
  { id: 'res', role: 'tool', toolCallId: 'c0', content: '7 degrees' },
  { id: 'said', role: 'assistant', content: 'It is 7.' },
];

const drawn = (talk) => talk.agent.messages.filter((m) => m.role !== 'system')
  .map((m) => [m.id, m.role, m.content || '', ...(m.toolCalls ?? []).map((c) => [c.id, c.function.name, c.function.arguments])]);

for (const client of clients) {
  describe(client.name, () => {
    test('a history of its own begins the thread', async () => {
      const talk = new Talk(client, { messages: seed() });
      finishedWell(await talk.say('text'));
      finishedWell(await talk.say('text'));
      const ids = drawn(talk).map(([id]) => id);
      assert.deepEqual(ids.slice(0, 6), ['greet', 'q0', 'think', 'call', 'res', 'said']);
      assert.equal(new Set(ids).size, ids.length, 'a message twice');
      await atRest(talk.threadId);
      const joined = new Talk(client, { threadId: talk.threadId });
      await joined.join();
      assert.deepEqual(drawn(joined), drawn(talk));
      assert.equal(joined.agent.messages.find((m) => m.id === 'greet').metadata?.['aqueduct.from'], 'client');
    });
  });
}
