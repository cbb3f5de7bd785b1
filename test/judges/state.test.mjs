// The shared state as both official clients see it, and threads whose last answer did not end well.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { compactEvents } from 'agui0';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { base, cancelRun, getJSON, newId, post, until } from './lib/server.mjs';
import { frames } from './lib/stream.mjs';

afterEach(noComplaints);

const url = `${base}/api/agui/chat?agent=state`;
const patch = (...ops) => `patch ${JSON.stringify(ops)}`;
const set = (path, value) => ({ op: 'add', path, value });

/** page is a client of the agent that shares its state. */
const page = (client, options) => new Talk(client, { url, ...options });

/** given is the state that the agent says it was given last. */
const given = (talk) => JSON.parse(/given (.*) /s.exec(talk.lastText)[1]);

for (const client of clients) {
  describe(client.name, () => {
    test('the frontend\'s state reaches the agent, is patched, and comes back after a reload', async () => {
      const talk = page(client);
      talk.agent.setState({ todo: ['a'], n: 1 });
      finishedWell(await talk.say(patch(set('/todo/-', 'b'))));
      assert.deepEqual(given(talk), { todo: ['a'], n: 1 });
      assert.deepEqual(talk.agent.state, { todo: ['a', 'b'], n: 1 });

      const back = page(client, { threadId: talk.threadId });
      finishedWell(await back.join());
      assert.deepEqual(back.agent.state, { todo: ['a', 'b'], n: 1 }, 'a reload loses the state');
      back.agent.setState({ ...back.agent.state, n: 2 });
      finishedWell(await back.say('hi'));
      assert.deepEqual(given(back), { todo: ['a', 'b'], n: 2 });
      assert.deepEqual(back.agent.state, { todo: ['a', 'b'], n: 2 });

      const fresh = page(client, { threadId: talk.threadId }); // sends {}
      finishedWell(await fresh.say('hi'));
      assert.deepEqual(fresh.agent.state, { todo: ['a', 'b'], n: 2 }, 'a fresh page wiped the state');
    });

    test('a stale tab keeps what others wrote; the last writer of a key wins', async () => {
      const one = page(client);
      finishedWell(await one.say(patch(set('/n', 1), set('/on', true))));
      const two = page(client, { threadId: one.threadId });
      finishedWell(await two.join());
      finishedWell(await one.say(patch(set('/n', 2), set('/on', false))));
      two.agent.setState({ ...two.agent.state, mine: 1 });
      finishedWell(await two.say('hi'));
      assert.deepEqual(two.agent.state, { n: 2, on: false, mine: 1 });
      two.agent.setState({ ...two.agent.state, on: true }); // sets back what the agent changed
      finishedWell(await two.say('hi'));
      assert.deepEqual(two.agent.state, { n: 2, on: true, mine: 1 });
    });

    test('a patch that does not apply is a warning, and the run goes on', async () => {
      const talk = page(client);
      talk.agent.setState({ a: 1 });
      const run = await talk.say(patch({ op: 'replace', path: '/none/such', value: 1 }));
      finishedWell(run);
      assert.equal(run.custom('state_not_applied')?.code, 'invalid_state');
      assert.deepEqual(talk.agent.state, { a: 1 });
    });

    test('a state beyond 256 KiB is refused by its code', async () => {
      const talk = page(client);
      talk.agent.setState({ a: 'x'.repeat(300 << 10) });
      await assert.rejects(talk.say('hi'), /413.*"state_too_large"/);
      noComplaintsBut(/state_too_large|413/);
    });

    test('every stream can be compacted: its first state event is a snapshot', async () => {
      const talk = page(client);
      const stream = [];
      for (const prompt of [patch(set('/n', 1)), patch(set('/n', 2)), 'hi', patch(set('/n', 3), set('/m', 1))]) {
        stream.push(...(await talk.say(prompt)).events);
      }
      const travel = new Talk(client, { url: `${base}/api/agui/chat?agent=demo` });
      const [question] = asked(await travel.say('all'), 1);
      const second = await travel.answer([question.id, { choice: '舒适型' }]);
      const joined = page(client, { threadId: talk.threadId });
      const whole = (await getJSON(`/api/runs/${second.id}/events?limit=1000`)).events;
      for (const [name, events] of Object.entries({
        stream, joined: (await joined.join()).events, second: second.events, log: whole.map(({ event }) => event),
      })) {
        const compact = compactEvents(structuredClone(events));
        assert.ok(compact.every(({ type }) => type !== 'STATE_DELTA'), name);
        assert.equal(compact.filter(({ type }) => type === 'STATE_SNAPSHOT').length > 0, true, name);
      }
      assert.deepEqual(compactEvents(stream).filter(({ type }) => type === 'STATE_SNAPSHOT').at(-1).snapshot, { n: 3, m: 1 });
      // A TDesign page's stream as well.
      const threadId = talk.threadId;
      const tdesign = (await frames(await post('/api/agui/chat?agent=state', { threadId, prompt: patch(set('/n', 4)) }))).map(({ event }) => event);
      assert.equal(tdesign.find(({ type }) => type.startsWith('STATE_'))?.type, 'STATE_SNAPSHOT');
      compactEvents(tdesign);
    });

    test('a reload after an answer that failed says so, and the thread goes on', async () => {
      const talk = page(client);
      const failed = await talk.say('fail');
      assert.deepEqual([failed.last.type, failed.last.code], ['RUN_ERROR', 'out_of_luck']);
      const back = page(client, { threadId: talk.threadId });
      const joined = await back.join();
      assert.deepEqual([joined.last.type, joined.last.code, joined.last.message], ['RUN_ERROR', 'out_of_luck', 'No luck.']);
      assert.match(back.lastText, /^given/, 'the half answer is shown');
      assert.equal(joined.custom('run_ended')?.status, 'failed');
      assert.equal((await getJSON(`/api/threads/${talk.threadId}`)).lastRun.errorMessage, 'No luck.');
      const history = await getJSON(`/api/threads/${talk.threadId}/messages`);
      assert.deepEqual(history.map(({ status }) => status), [undefined, 'error', 'error']);
      finishedWell(await back.say('hi'));
      finishedWell(await page(client, { threadId: talk.threadId }).join());
    });

    test('a reload after an answer that was cancelled says so', async () => {
      const talk = page(client);
      const runId = newId('run');
      talk.agent.addMessage({ id: newId('user'), role: 'user', content: 'wait' });
      const said = talk.run({ runId });
      await until('the agent waits', async () => (await getJSON(`/api/threads/${talk.threadId}`).catch(() => ({}))).lastRun?.status === 'RUNNING');
      await cancelRun(runId);
      const live = await said;
      const back = page(client, { threadId: talk.threadId });
      const joined = await back.join();
      assert.equal(joined.custom('run_ended')?.status, 'cancelled');
      assert.deepEqual([joined.last.type, joined.last.outcome], [live.last.type, live.last.outcome], 'it ends as the run did');
      assert.equal(joined.last.outcome?.type, client.version === 1 ? 'cancelled' : undefined);
      finishedWell(await back.say('hi'));
    });
  });
}

/** noComplaintsBut lets the client complain of an HTTP error, which it does. */
function noComplaintsBut(allowed) {
  try {
    noComplaints();
  } catch (error) {
    assert.match(String(error.message + JSON.stringify(error.actual)), allowed);
  }
}
