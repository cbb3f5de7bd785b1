// The agent that comes with the server, as both official clients see it. The model behind it is scripted
// (assistant_test.go): "call NAME ARGS" calls a tool and tells what it gave.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { atRest, decide, offered, openApprovals } from './lib/server.mjs';

afterEach(noComplaints);

const showMap = { name: 'show_map', description: 'Shows a map', parameters: { type: 'object', properties: { lat: { type: 'number' } } } };
const picture = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** calls are the tool calls of a thread, with their results, in order. */
function calls(talk) {
  return talk.agent.messages.flatMap((m) => m.toolCalls ?? []).map((c) => [c.function.name, c.function.arguments, talk.result(c.id)]);
}

/** reloaded is the thread as a fresh page gets it. */
async function reloaded(talk) {
  await atRest(talk.threadId);
  const back = new Talk(talk.client, { threadId: talk.threadId });
  await back.join();
  return back;
}

for (const client of clients) {
  describe(client.name, () => {
    test('text, thoughts and usage', async () => {
      const talk = new Talk(client);
      const run = await talk.say('hello');
      finishedWell(run);
      assert.equal(talk.lastText, 'You wrote: hello');
      assert.ok(run.of('REASONING_MESSAGE_CONTENT').length > 0);
      if (client.version === 1) assert.deepEqual(run.last.usage.map((u) => [u.model, u.inputTokens, u.outputTokens]), [['scripted', 3, 2]]);
    });

    test('tools of the installation, side by side, and what the model is told of them later', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('call wood_cut {"n":1}; wood_cut {"n":2}; nothing {}'));
      assert.deepEqual(new Set(calls(talk).slice(0, 3).map(([name, , result]) => `${name} ${result}`)), new Set([
        'wood.cut {"ran_with":{"n":1}}', 'wood.cut {"ran_with":{"n":2}}', 'nothing {"error":{"code":"tool_unknown","message":"There is no tool of that name."}}',
      ]));
      assert.match(talk.lastText, /ran_with.*1.* and .*ran_with.*2.* and .*tool_unknown/);
      await talk.say('tell');
      assert.match(talk.lastText, /wood_cut\{"n":1\}.*tool:"\{\\"ran_with\\":\{\\"n\\":1\}\}"/);
      assert.deepEqual((await reloaded(talk)).picture, talk.picture);
    });

    test('tools of MCP servers, over standard streams and over HTTP', async () => {
      await offered('every.echo', 'far.echo');
      const talk = new Talk(client);
      let run = await talk.say('call every_echo {"message":"near"}; far_echo {"message":"far"}');
      let questions = 0;
      while (run.last.outcome?.type === 'interrupt') {
        questions += run.last.outcome.interrupts.length;
        run = await talk.answer(...run.last.outcome.interrupts.map(({ id }) => [id, { approved: true }]));
      }
      finishedWell(run);
      assert.equal(questions, 2);
      assert.match(talk.lastText, /Echo: near.* and .*Echo: far/);
    });

    test('a tool of the page', async () => {
      const talk = new Talk(client, { tools: [showMap] });
      const first = await talk.say('call show_map {"lat":52}');
      assert.equal(first.of('TOOL_CALL_START').length, 1, 'the call is drawn twice');
      assert.ok(first.of('TOOL_CALL_ARGS').length > 1, 'the arguments do not come as the model writes them');
      const [call] = talk.calls('show_map');
      assert.deepEqual(JSON.parse(call.function.arguments), { lat: 52 });
      finishedWell(await talk.answerAsTool(call.id, { shown: true }));
      assert.equal(talk.lastText, 'The tools gave "{\\"shown\\":true}".');
      await talk.say('tell');
      assert.match(talk.lastText, /show_map\{"lat":52\}.*tool:"\{\\"shown\\":true\}"/);
    });

    test('a tool that needs approval, its arguments edited', async () => {
      const talk = new Talk(client);
      const run = await talk.say('call bank_pay {"amount":100}');
      asked(run, 1);
      const [question] = await openApprovals(talk.threadId);
      const { status } = await decide(question.id ?? question.approval_id, { decision: 'approve', edited_args: { amount: 10 } });
      assert.equal(status, 200);
      await atRest(talk.threadId);
      const back = await reloaded(talk);
      assert.match(back.lastText, /"ran_with.*10/);
      assert.ok(!back.lastText.includes('100'));
      await back.say('tell');
      assert.match(back.lastText, /bank_pay\{"amount":100?\}/);
    });

    test('a tool that needs approval, rejected', async () => {
      const talk = new Talk(client);
      const [{ id }] = asked(await talk.say('call bank_pay {"amount":100}'), 1);
      finishedWell(await talk.answer([id, { approved: false }]));
      assert.match(talk.lastText, /rejected/);
    });

    test('a budget that is used up', async () => {
      const talk = new Talk(client);
      const [{ id }] = asked(await talk.say('spend wood_cut {"n":1}'), 1);
      const { args } = JSON.parse(talk.calls('request_permission').at(-1).function.arguments);
      assert.deepEqual(args, { budget: 'run', unit: 'tokens', limit: 260, add: 260 });
      finishedWell(await talk.answer([id, { approved: true }]));
      assert.match(talk.lastText, /The tools gave .*ran_with/);
    });

    test('a picture', async () => {
      const talk = new Talk(client, { messages: [{ id: `p-${client.version}`, role: 'user', content: [
        { type: 'text', text: 'what is it?' }, { type: 'image', source: { type: 'data', value: picture, mimeType: 'image/png' } },
      ] }] });
      finishedWell(await talk.run());
      assert.match(talk.lastText, /^A picture of \d+ bytes/);
    });

    test('a model that breaks off, and one that calls tools for ever', async () => {
      for (const [prompt, code] of [['fail', 'model_failed'], ['loop wood_cut {"n":1}', 'too_many_steps']]) {
        const talk = new Talk(client);
        const run = await talk.say(prompt);
        assert.equal(run.last.type, 'RUN_ERROR');
        assert.equal(run.last.code, code);
      }
    });
  });
}
