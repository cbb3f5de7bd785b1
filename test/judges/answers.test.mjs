// Every way to answer a question, and what happens when somebody else was faster. Whatever
// happens, the thread must stay usable: an HTTP error to an answer would end it for good,
// because the official clients then keep the interrupt open for ever.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { atRest, cancelRun, decide, lastRun, newId, openApprovals, post, until } from './lib/server.mjs';
import { frames, types } from './lib/stream.mjs';

afterEach(noComplaints);

const frontendTools = ['request_permission', 'collect_preferences'].map((name) => ({
  name,
  description: 'Ask the person',
  parameters: { type: 'object', properties: {} },
}));

for (const client of clients) {
  describe(client.name, () => {
    test('a permission answered by a tool message', async () => {
      const talk = new Talk(client, { tools: frontendTools });
      const run = await talk.say('ask');
      finishedWell(run);
      const [call] = talk.calls('request_permission');
      assert.deepEqual(run.last.outcome?.pendingToolCallIds, client.version === 1 ? [call.id] : undefined);
      const [option] = JSON.parse(call.function.arguments).options;
      const next = await talk.answerAsTool(call.id, { optionId: option.id });
      finishedWell(next);
      assert.match(talk.lastText, /You allowed it/);
      assert.equal(next.of('TOOL_CALL_RESULT').length, 0, 'the client has its own tool message');
    });

    test('an input answered by a tool message', async () => {
      const talk = new Talk(client, { tools: frontendTools });
      finishedWell(await talk.say('prefs'));
      const [call] = talk.calls('collect_preferences');
      finishedWell(await talk.answerAsTool(call.id, { choice: 'economy' }));
      assert.match(talk.lastText, /Noted: .*economy/);
    });

    test('two calls answered by two tool messages', async () => {
      const talk = new Talk(client, { tools: frontendTools });
      finishedWell(await talk.say('asks'));
      const calls = talk.calls('request_permission');
      assert.equal(calls.length, 2);
      for (const call of calls) {
        talk.agent.addMessage({ id: newId('tool'), role: 'tool', toolCallId: call.id, content: '{"optionId":"once"}' });
      }
      finishedWell(await talk.run());
      assert.match(talk.lastText, /the mail.*the invoice/);
    });

    test('one of two tool messages: the rest stays open', async () => {
      const talk = new Talk(client, { tools: frontendTools });
      await talk.say('asks');
      const [mail, pay] = talk.calls('request_permission').map((c) => c.id);
      const partial = await talk.answerAsTool(mail, { optionId: 'once' });
      finishedWell(partial);
      assert.equal((await openApprovals(talk.threadId)).length, 1);
      finishedWell(await talk.answerAsTool(pay, { optionId: 'no' }));
      assert.match(talk.lastText, /took care of the mail.*left the invoice alone/);
    });

    test('one of two interrupts: ends with the other', async () => {
      const talk = new Talk(client);
      const [mail, pay] = asked(await talk.say('asks'), 2).map((q) => q.id);
      // The official clients refuse to send half an answer, so another one does.
      const response = await post('/api/agui/chat', {
        threadId: talk.threadId, runId: newId('run'), ...(client.version === 1 && { protocolVersion: '1.0' }),
        messages: [], tools: [], context: [], state: {}, forwardedProps: {},
        resume: [{ interruptId: mail, status: 'resolved', payload: { optionId: 'once' } }],
      });
      const events = await frames(response);
      const last = events.at(-1).event;
      assert.deepEqual(last.outcome?.interrupts?.map((i) => i.id), [pay], JSON.stringify(last));
      const back = new Talk(client, { threadId: talk.threadId });
      const [rest] = asked(await back.join(), 1);
      assert.equal(rest.id, pay);
      finishedWell(await back.answer([pay, { optionId: 'once' }]));
      assert.match(back.lastText, /took care of the mail.*took care of the invoice/);
    });

    test('an option that was not offered leaves the question open', async () => {
      const talk = new Talk(client);
      const [question] = asked(await talk.say('ask'), 1);
      const [again] = asked(await talk.answer([question.id, { optionId: 'sudo' }]), 1);
      assert.equal(again.id, question.id);
      finishedWell(await talk.answer([question.id, { optionId: 'no' }]));
      assert.match(talk.lastText, /You said no/);
    });

    test('REST answers while the chat is closed; a late answer is told', async () => {
      const gone = new Talk(client);
      const [question] = asked(await gone.say('ask'), 1);
      const [approval] = await openApprovals(gone.threadId);
      assert.equal(approval.approval_id, question.id);
      const { status } = await decide(approval.approval_id, { option_id: 'once' });
      assert.equal(status, 200);
      await atRest(gone.threadId); // nobody listens, and it goes on

      const back = new Talk(client, { threadId: gone.threadId });
      finishedWell(await back.join());
      assert.match(back.lastText, /You allowed it/);
      assert.ok(back.result(question.id));

      const late = await gone.answer([question.id, { optionId: 'no' }]);
      finishedWell(late);
      assert.ok(late.custom('question_settled'), 'the loser is not told who decided');
      assert.match(gone.lastText, /You allowed it/);
      finishedWell(await gone.say('text'));
      assert.match(gone.lastText, /miss nothing\.$/);
    });

    test('the same answer twice has one effect', async () => {
      const talk = new Talk(client);
      const [question] = asked(await talk.say('ask'), 1);
      const twin = new Talk(client, { threadId: talk.threadId });
      asked(await twin.join(), 1);
      const [first, second] = await Promise.all([
        talk.answer([question.id, { optionId: 'once' }]),
        twin.answer([question.id, { optionId: 'once' }]),
      ]);
      finishedWell(first);
      finishedWell(second);
      for (const t of [talk, twin]) assert.match(t.lastText, /You allowed it/);
      const back = new Talk(client, { threadId: talk.threadId });
      await back.join();
      assert.equal(back.agent.messages.filter((m) => /You allowed it/.test(m.content)).length, 1);
    });

    test('a race of different answers: one wins, nobody is stuck', async () => {
      for (let round = 0; round < 5; round += 1) {
        const talk = new Talk(client);
        const [question] = asked(await talk.say('ask'), 1);
        const [run, rest] = await Promise.all([
          talk.answer([question.id, { optionId: 'no' }]),
          decide(question.id, { option_id: 'once' }),
        ]);
        finishedWell(run);
        assert.ok([200, 409].includes(rest.status), `REST: ${rest.status}`);
        await atRest(talk.threadId);
        const back = new Talk(client, { threadId: talk.threadId });
        finishedWell(await back.join());
        assert.match(back.lastText, rest.status === 200 ? /You allowed it/ : /You said no/);
        finishedWell(await talk.say('text'));
        finishedWell(await back.say('text'));
      }
    });

    test('a prompt while a question is open ends with the question again', async () => {
      const talk = new Talk(client);
      const [question] = asked(await talk.say('ask'), 1);
      const other = new Talk(client, { threadId: talk.threadId });
      const [again] = asked(await other.say('text'), 1);
      assert.equal(again.id, question.id);
      finishedWell(await talk.answer([question.id, { optionId: 'once' }]));
      assert.match(talk.lastText, /You allowed it/);
    });

    test('a client tool answered over REST', async () => {
      const talk = new Talk(client, { tools: [{ name: 'pick', description: 'Pick', parameters: {} }] });
      await talk.say('client_tool');
      const [call] = talk.calls('pick');
      const response = await post(`/api/tool_calls/${call.id}/result`, { ok: true, result: 'by REST' });
      assert.equal(response.status, 200, await response.text());
      const back = new Talk(client, { threadId: talk.threadId, tools: talk.tools });
      await until('the Turn goes on', async () => {
        await back.join();
        return /by REST/.test(back.lastText);
      });
    });

    test('abort, then cancel', { timeout: 30_000 }, async () => {
      const talk = new Talk(client);
      let runId;
      await talk.say('slow', {
        onEvent: (e) => {
          if (e.type === 'RUN_STARTED') runId = e.runId;
          if (e.type === 'TEXT_MESSAGE_CONTENT') talk.agent.abortRun();
        },
      });
      assert.equal((await lastRun(talk.threadId)).status, 'RUNNING', 'abort alone must leave the Turn running');
      await cancelRun(runId);
      await atRest(talk.threadId);
      const back = new Talk(client, { threadId: talk.threadId });
      const joined = await back.join();
      assert.equal(joined.last.type, 'RUN_FINISHED');
      assert.equal(joined.last.outcome?.type, client.version === 1 ? 'cancelled' : undefined, 'it ends as the Run did');
      assert.equal(joined.custom('run_ended')?.status, 'cancelled');
      assert.match(back.lastText, /^1 /);
      finishedWell(await back.say('text'));
    });

    test('abort alone: the Turn runs on, and a join sees it live', { timeout: 30_000 }, async () => {
      const talk = new Talk(client);
      await talk.say('slow', { onEvent: (e) => e.type === 'TEXT_MESSAGE_CONTENT' && talk.agent.abortRun() });
      const had = talk.lastText;
      const back = new Talk(client, { threadId: talk.threadId });
      let runId;
      const run = await back.join({
        onEvent: (e) => {
          if (e.type === 'RUN_STARTED') runId = e.runId;
          if (e.type === 'TEXT_MESSAGE_CONTENT' && back.lastText.length > had.length + 2 && runId) {
            cancelRun(runId);
            runId = undefined;
          }
        },
      });
      assert.equal(run.last.type, 'RUN_FINISHED');
      assert.ok(back.lastText.startsWith(had) && back.lastText.length > had.length, `${had} → ${back.lastText}`);
    });

    test('a second Run on a busy thread is refused, and harms nobody', { timeout: 30_000 }, async () => {
      const talk = new Talk(client);
      let refused;
      let runId;
      const run = await talk.say('slow', {
        onEvent: (e) => {
          if (e.type === 'RUN_STARTED') runId = e.runId;
          if (e.type !== 'TEXT_MESSAGE_CONTENT' || refused) return;
          refused = post('/api/agui/chat', { threadId: talk.threadId, runId: newId('run'), protocolVersion: '1.0', messages: [{ id: newId('u'), role: 'user', content: 'text' }] })
            .then(async (r) => ({ status: r.status, problem: await r.json() }))
            .finally(() => cancelRun(runId));
        },
      });
      const { status, problem } = await refused;
      assert.equal(status, 409);
      assert.equal(problem.code, 'run_in_progress');
      assert.equal(run.last.type, 'RUN_FINISHED');
    });
  });
}

test('a Run posted again with the same body is the same Run; with another it is a conflict', async () => {
  const body = {
    threadId: newId('thread'), runId: newId('run'), protocolVersion: '1.0', messages: [{ id: newId('u'), role: 'user', content: 'text' }],
    tools: [], context: [], state: {}, forwardedProps: {},
  };
  const first = await frames(await post('/api/agui/chat', body));
  const again = await frames(await post('/api/agui/chat', body));
  assert.deepEqual(again, first);
  const other = await post('/api/agui/chat', { ...body, messages: [{ id: newId('u'), role: 'user', content: 'tool' }] });
  assert.equal(other.status, 409);
  assert.equal((await other.json()).code, 'run_id_conflict');
});

test('?follow=1 goes on past a question', async () => {
  const threadId = newId('thread');
  const response = await post('/api/agui/chat?follow=1', {
    threadId, runId: newId('run'), protocolVersion: '1.0', messages: [{ id: newId('u'), role: 'user', content: 'ask' }],
    tools: [], context: [], state: {}, forwardedProps: {},
  });
  const all = frames(response);
  // The inbox has it a moment before its Run ends; an answer within that moment goes into the same Run.
  const [approval] = await until('the question', async () => {
    const open = await openApprovals(threadId);
    return open.length > 0 && (await lastRun(threadId))?.status === 'INTERRUPTED' && open;
  });
  await decide(approval.approval_id, { approved: true });
  const list = types(await all);
  assert.equal(list.filter((t) => t === 'RUN_STARTED').length, 2, list.join(' '));
  assert.equal(list.at(-1), 'RUN_FINISHED');
});
