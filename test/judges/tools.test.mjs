// Tools that the server runs for an agent, as both official clients see them: live, after a reload, and once.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { atRest, base } from './lib/server.mjs';

afterEach(noComplaints);

const url = `${base}/api/agui/chat?agent=tools`;
const page = (client, options) => new Talk(client, { url, ...options });

/** drawn is what a frontend draws of a thread: words, and tool calls with their results, in order. */
function drawn(talk) {
  return talk.agent.messages.filter((m) => m.role === 'assistant').flatMap((m) => [
    ...(m.content ? [m.content] : []),
    ...(m.toolCalls ?? []).map((c) => [c.function.name, c.function.arguments, talk.result(c.id)]),
  ]);
}

/** reloaded is the thread as a fresh page gets it. */
async function reloaded(talk) {
  await atRest(talk.threadId);
  const back = page(talk.client, { threadId: talk.threadId });
  await back.join();
  return back;
}

for (const client of clients) {
  describe(client.name, () => {
    test('a call is in the chat where it was made, with its result, live and after a reload', async () => {
      const talk = page(client);
      finishedWell(await talk.say('cut show cut burn'));
      const all = drawn(talk);
      const refused = JSON.parse(all[3][2]);
      assert.deepEqual(all.with(3, 'burn'), [
        'First. ', ['cut', '{"n":0}', '{"made":{"n":0}}'], ['cut', '{"n":2}', '{"made":{"n":2}}'], 'burn', 'Last.',
      ]);
      assert.equal(refused.status, 'refused');
      assert.equal(refused.error.code, 'blocked');
      assert.equal(talk.agent.messages.filter((m) => m.role === 'tool').length, 3, 'a result twice');
      assert.deepEqual((await reloaded(talk)).picture, talk.picture);
    });

    test('after an approval the result is the tool\'s', async () => {
      const talk = page(client);
      const run = await talk.say('pay');
      const [{ id }] = asked(run, 1);
      finishedWell(await talk.answer([id, { approved: true }]));
      assert.equal(talk.result(id), '{"made":{"n":0}}');
      assert.equal(talk.agent.messages.filter((m) => m.role === 'tool').length, 1, 'a result twice');
      const back = await reloaded(talk);
      assert.equal(back.result(id), '{"made":{"n":0}}');
      assert.deepEqual(drawn(back), drawn(talk));
    });
  });
}
