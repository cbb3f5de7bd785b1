// Stop and go on, regenerate, edit: what both official clients do on these buttons, and what a page shows that is loaded
// afterwards.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { base, cancelRun, getJSON } from './lib/server.mjs';

const times = 10;

/** stopped says something slow and closes the response at an event, as abortRun does; nothing is awaited after that. */
async function stopped(talk, at) {
  let runId;
  const run = await talk.say('slow', {
    onEvent: (e) => {
      if (e.type === 'RUN_STARTED') runId = e.runId;
      if (e.type === at) talk.agent.abortRun();
    },
  });
  return { runId, run };
}

/** roles of what somebody sees who loads the thread now. */
async function reloaded(client, talk) {
  const page = new Talk(client, { threadId: talk.threadId });
  finishedWell(await page.join());
  return page;
}

const shown = (talk) => talk.agent.messages.filter((m) => m.role === 'user' || m.role === 'assistant');
const said = (talk) => shown(talk).map((m) => `${m.role}: ${m.content}`);

/** backTo drops what stands behind the message of that number, as a chat does for regenerate and edit. */
function backTo(talk, n) {
  talk.agent.setMessages(talk.agent.messages.slice(0, talk.agent.messages.indexOf(shown(talk)[n]) + 1));
}

const runJSON = (run) => getJSON(`/api/runs/${run.id}`);

for (const client of clients) {
  describe(client.name, { concurrency: 4 }, () => {
    after(noComplaints);

    for (const at of ['RUN_STARTED', 'TEXT_MESSAGE_CONTENT']) {
      for (const leaves of [false, true]) {
        test(`Stop at ${at} and ask at once, ${times} times${leaves ? ', with on_leave=cancel' : ''}`, { timeout: 60_000 }, async () => {
          for (let i = 0; i < times; i += 1) {
            const talk = new Talk(client, { url: `${base}/api/agui/chat${leaves ? '?on_leave=cancel' : ''}` });
            const { runId } = await stopped(talk, at);
            finishedWell(await talk.say('text'));
            assert.equal((await getJSON(`/api/runs/${runId}`)).status, 'CANCELLED');
            const page = await reloaded(client, talk);
            const users = page.agent.messages.filter((m) => m.role === 'user').map((m) => m.content);
            assert.deepEqual(users, ['slow', 'text']);
            assert.equal(page.agent.messages.at(-1).role, 'assistant');
          }
        });
      }
    }

    test(`Stop, cancel, and ask at once, ${times} times`, { timeout: 60_000 }, async () => {
      for (let i = 0; i < times; i += 1) {
        const talk = new Talk(client);
        const { runId } = await stopped(talk, 'TEXT_MESSAGE_CONTENT');
        const cancelled = cancelRun(runId);
        finishedWell(await talk.say('text'));
        await cancelled;
      }
    });

    test('regenerate: the same question, answered again on a branch', { timeout: 30_000 }, async () => {
      const talk = new Talk(client);
      const first = await talk.say('text');
      const second = await talk.say('text');
      const before = talk.picture;
      const old = shown(talk).at(-1);
      backTo(talk, 2);
      const again = await talk.run();
      finishedWell(again);
      assert.deepEqual(talk.picture.messages, before.messages);
      assert.notEqual(shown(talk).at(-1).id, old.id, 'the old answer came once more');
      assert.equal(again.events[0].parentRunId, first.id);
      assert.equal((await runJSON(again)).parentRunId, first.id);
      assert.deepEqual(shown(await reloaded(client, talk)).map((m) => m.id), shown(talk).map((m) => m.id));
      const branch = await getJSON(`/api/threads/${talk.threadId}/messages?format=agui&run=${second.id}`);
      assert.equal(branch.filter((m) => m.role === 'assistant').at(-1).id, old.id);
      assert.equal((await runJSON(second)).status, 'FINISHED');
      finishedWell(await talk.say('text')); // and the talk goes on from there
      assert.deepEqual(said(await reloaded(client, talk)), said(talk));
    });

    test('Stop, then regenerate: the old Turn ends and the new one answers', { timeout: 30_000 }, async () => {
      const talk = new Talk(client);
      const { runId } = await stopped(talk, 'TEXT_MESSAGE_CONTENT');
      backTo(talk, 0);
      let again;
      const run = await talk.run({
        onEvent: (e) => {
          if (e.type === 'RUN_STARTED') again = e.runId;
          if (e.type === 'TEXT_MESSAGE_CONTENT') talk.agent.abortRun();
        },
      });
      assert.notEqual(again, runId);
      assert.ok(run.types.includes('TEXT_MESSAGE_CONTENT'));
      assert.equal((await getJSON(`/api/runs/${runId}`)).status, 'CANCELLED');
      await cancelRun(again);
    });

    for (const sameID of [false, true]) {
      test(`edit, ${sameID ? 'under the old id' : 'as a new message'}`, { timeout: 30_000 }, async () => {
        const talk = new Talk(client);
        const first = await talk.say('text');
        const second = await talk.say('text');
        await talk.say('text');
        const old = shown(talk).map((m) => m.id);
        const { id } = shown(talk)[2];
        backTo(talk, 1);
        if (sameID) talk.agent.addMessage({ id, role: 'user', content: 'text, please' });
        const edited = await (sameID ? talk.run() : talk.say('text, please'));
        finishedWell(edited);
        assert.equal(edited.events[0].parentRunId, first.id);
        const page = await reloaded(client, talk);
        assert.deepEqual(said(page), said(talk));
        assert.equal(shown(page).length, 4);
        const branch = await getJSON(`/api/threads/${talk.threadId}/messages?format=agui&run=${second.id}`);
        assert.deepEqual(branch.filter((m) => m.role === 'user').map((m) => m.content), ['text', 'text']);
        assert.deepEqual(branch.filter((m) => ['user', 'assistant'].includes(m.role)).map((m) => m.id), old.slice(0, 4));
      });
    }
  });
}
