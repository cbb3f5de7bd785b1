// A client that comes in the middle of the third Turn of a thread has the messages in the order of the log, at every point of the
// answer: with nothing, or with what it had when it left at an earlier point.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { Program } from './lib/program.mjs';
import { newId, until } from './lib/server.mjs';
import { StepAgent } from './lib/stepagent.mjs';

const say = (text) => ['delta', { text }];
const think = (text) => ['thought', { text }];

// Words, a tool and an activity stand before thoughts, so that a thought that is named before it is thought would come too early.
const answer = [
  ['tool_call', { id: 'first', name: 'look_up', args: { what: 'a name' } }], ['tool_result', { id: 'first', content: 'a name' }], think('Well. '),
  say('Let me see. '), think('Where? '), think('There. '), ['tool_call', { id: 'look', name: 'look_up', args: { what: 'a time' } }],
  ['tool_result', { id: 'look', content: 'a time' }], think('Is it enough? '), say('Once '), say('more: '),
  ['tool_call', { id: 'again', name: 'look_up', args: { what: 'a place' } }], ['tool_result', { id: 'again', content: 'a place' }],
  think('It is. '), say('Here.'), ['done', {}],
];

let agent;
let program;

before(async () => {
  agent = await StepAgent.start(answer);
  program = await Program.start('2ms', ['--agent', `steps=${agent.url}`, '--default-agent', 'steps']);
});

after(() => program?.close());
afterEach(noComplaints);

const open = (client, threadId, messages = []) => new Talk(client, { threadId, messages, url: `${program.url}/api/agui/chat` });
const order = ({ agent: { messages } }) => messages.map((m) => `${m.role} ${m.id}`);
const texts = ({ agent: { messages } }) => messages.map((m) => m.content ?? '');

/** says has the agent say all it has. */
async function says(calls) {
  await until('the agent is called', () => agent.calls.length === calls);
  while (agent.next());
}

/** same waits until a client that joined shows what one shows that was there all the time. */
async function same(joined, first, where) {
  await until(where, () => JSON.stringify(texts(joined)) === JSON.stringify(texts(first)) || joined.failed, 10_000).catch(() => {});
  assert.deepEqual(order(joined), order(first), where);
  assert.deepEqual(texts(joined), texts(first), where);
}

for (const client of clients) {
  test(`${client.name}: a join at every point of the third Turn has the order of the log`, async () => {
    const threadId = newId('order');
    const first = open(client, threadId);
    for (const text of ['one', 'two']) {
      const run = first.say(text);
      await says(agent.calls.length + 1);
      finishedWell(await run);
    }
    const calls = agent.calls.length + 1;
    const left = structuredClone(first.agent.messages); // of a client that left before the third Turn
    const third = first.say('three');
    await until('the agent is called', () => agent.calls.length === calls);

    const joins = [];
    const kept = [left];
    for (let k = 0; ; k += 1) {
      for (const [i, messages] of [[], ...kept].entries()) {
        const back = open(client, threadId, structuredClone(messages));
        joins.push([back, back.join()]);
        await same(back, first, `joined after frame ${k}, with ${i ? `what there was after ${i - 2}` : 'nothing'}`);
      }
      const shown = texts(first).join('');
      const [event, data] = agent.next() ?? [];
      if (event === undefined || event === 'done') break;
      await until(`${event} is shown`, () => texts(first).join('') !== shown || event === 'tool_call' && first.calls(data.name).length > 0);
      kept.splice(1, kept.length, structuredClone(first.agent.messages)); // the newest, beside the one that left before
    }
    agent.next();
    finishedWell(await third);
    for (const [back, run] of joins) {
      finishedWell(await run);
      await same(back, first, 'at the end');
    }
    assert.deepEqual(first.agent.messages.filter((m) => m.role === 'user').length, 3);
    assert.ok(joins.length > 2 * answer.length, `${joins.length} joins`);
  });
}
