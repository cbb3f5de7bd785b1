// Both official clients see every part of the demo: no throw, no warning, the right picture.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';

import { asked, clients, finishedWell, noComplaints, Talk } from './lib/clients.mjs';
import { cancelRun } from './lib/server.mjs';

afterEach(noComplaints);

const color = {
  name: 'pick_color',
  description: 'Let the person pick a color',
  parameters: { type: 'object', properties: { hint: { type: 'string' } }, required: ['hint'] },
};

for (const client of clients) {
  describe(client.name, () => {
    test('text', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('text'));
      assert.match(talk.lastText, /^This answer travels .* miss nothing\.$/);
      assert.deepEqual(talk.agent.messages.map((m) => m.role), ['user', 'assistant']);
    });

    test('think', async () => {
      const talk = new Talk(client);
      const run = await talk.say('think');
      finishedWell(run);
      assert.ok(!run.types.some((t) => t.startsWith('THINKING')), 'retired events');
      const thought = talk.agent.messages.find((m) => m.role === 'reasoning');
      assert.equal(thought?.content, 'The question is short, so the answer should be short too. First weigh it, then say it.');
      assert.equal(talk.lastText, 'I thought about it first: forty-two.');
    });

    test('tool', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('tool'));
      const [weather] = talk.calls('get_weather');
      const [clock] = talk.calls('get_time');
      assert.deepEqual(JSON.parse(weather.function.arguments), { city: 'Paris', unit: 'celsius' });
      assert.deepEqual(JSON.parse(talk.result(weather.id)), { temp: 25, sky: 'clear' });
      assert.equal(talk.result(clock.id), 'half past nine in the morning');
    });

    test('state', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('state'));
      assert.deepEqual(talk.agent.state.report, { progress: 100, message: 'ready' });
      assert.deepEqual(talk.agent.state.items, { list: ['reading', 'writing', 'ready'] });
      assert.equal(talk.agent.state.agent?.state, 'idle');
    });

    test('activity', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('activity'));
      const plans = talk.agent.messages.filter((m) => m.role === 'activity');
      assert.equal(plans.length, 1);
      assert.equal(plans[0].activityType, 'plan');
      assert.deepEqual(plans[0].content.entries.map((e) => e.status), ['completed', 'completed', 'completed']);
    });

    test('step', async () => {
      const talk = new Talk(client);
      const run = await talk.say('step');
      finishedWell(run);
      const names = (type) => run.of(type).map((e) => e.stepName);
      assert.deepEqual([names('STEP_STARTED'), names('STEP_FINISHED')], [['gather', 'compare'], ['compare', 'gather']]);
      assert.deepEqual(run.custom('demo_note'), { compared: 3 });
    });

    test('ask', async () => {
      const talk = new Talk(client);
      const [question] = asked(await talk.say('ask'), 1);
      const [call] = talk.calls('request_permission');
      assert.equal(call.id, question.id);
      assert.equal(question.toolCallId, question.id);
      const args = JSON.parse(call.function.arguments);
      assert.equal(args.tool, 'delete_folder');
      assert.equal(args.title, 'Delete the folder build?');
      assert.deepEqual(args.args, { path: 'build', recursive: true });
      assert.match(args.args_sha256, /^[0-9a-f]{64}$/);
      assert.deepEqual(args.options.map((o) => o.kind), ['allow_once', 'allow_always', 'reject_once']);
      assert.ok(Date.parse(args.expires_at) > Date.now());
      const run = await talk.answer([question.id, { optionId: args.options[0].id }]);
      finishedWell(run);
      assert.match(talk.lastText, /You allowed it/);
      assert.ok(talk.result(question.id), 'the question has no result');
      assert.equal(run.of('TOOL_CALL_START').length, 0, 'the call must not be shown again');
    });

    test('ask, rejected and cancelled', async () => {
      for (const [says, entry] of [[/You said no/, { optionId: 'no' }], [/said no|Nobody decided/, undefined]]) {
        const talk = new Talk(client);
        const [question] = asked(await talk.say('ask'), 1);
        finishedWell(await talk.answer([question.id, entry]));
        assert.match(talk.lastText, says);
      }
    });

    test('asks', async () => {
      const talk = new Talk(client);
      const questions = asked(await talk.say('asks'), 2);
      const [mail, pay] = questions.map((q) => q.id);
      finishedWell(await talk.answer([mail, { optionId: 'once' }], [pay, { optionId: 'no' }]));
      assert.match(talk.lastText, /took care of the mail.*left the invoice alone/);
    });

    test('prefs', async () => {
      const talk = new Talk(client);
      const [question] = asked(await talk.say('prefs'), 1);
      assert.deepEqual(question.responseSchema.required, ['choice']);
      const [call] = talk.calls('collect_preferences');
      assert.equal(call.id, question.id);
      assert.equal(JSON.parse(call.function.arguments).title, 'How do you like to travel?');
      finishedWell(await talk.answer([question.id, { choice: 'comfort', days: 3 }]));
      assert.match(talk.lastText, /Noted: .*comfort/);
    });

    test('client_tool', async () => {
      const talk = new Talk(client, { tools: [color] });
      const run = await talk.say('client_tool');
      finishedWell(run);
      const [call] = talk.calls('pick_color');
      assert.deepEqual(JSON.parse(call.function.arguments), { hint: 'demo' });
      assert.deepEqual(run.last.outcome?.pendingToolCallIds, client.version === 1 ? [call.id] : undefined);
      finishedWell(await talk.answerAsTool(call.id, 'teal'));
      assert.match(talk.lastText, /Your frontend answered: "?teal/);
    });

    test('client_tool, none declared', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('client_tool'));
      assert.match(talk.lastText, /declared no tools/);
    });

    test('all', async () => {
      const talk = new Talk(client);
      const [question] = asked(await talk.say('all'), 1);
      assert.equal(talk.calls('get_weather').length, 1);
      finishedWell(await talk.answer([question.id, { choice: '舒适型' }]));
      assert.equal(talk.lastText, '根据您的偏好 舒适型， 推荐以下行程： 第一天 故宫， 第二天 长城。');
      assert.deepEqual(talk.agent.state.plan_task, { progress: 100, steps: ['get_weather', 'collect_preferences'] });
      assert.deepEqual(JSON.parse(talk.result(question.id)), { choice: '舒适型' });
      const [chart] = talk.agent.messages.filter((m) => m.role === 'activity');
      assert.deepEqual(chart.content, { title: '相关股票', data: [{ price: 100 }] });
    });

    test('slow, and stopped', { timeout: 30_000 }, async () => {
      const talk = new Talk(client);
      let runId;
      let stopping;
      const run = await talk.say('slow', {
        onEvent: (e) => {
          if (e.type === 'RUN_STARTED') runId = e.runId;
          if (e.type === 'TEXT_MESSAGE_CONTENT') stopping ??= cancelRun(runId);
        },
      });
      await stopping;
      assert.equal(run.last.type, 'RUN_FINISHED');
      assert.equal(run.last.outcome?.type, client.version === 1 ? 'cancelled' : undefined);
      assert.match(talk.lastText, /^1 /);
      finishedWell(await talk.say('text')); // the thread lives on
    });

    test('flood', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('flood 1000'));
      const want = Array.from({ length: 1000 }, (_, i) => `${i + 1} `).join('');
      assert.equal(talk.lastText, want);
    });

    test('error', async () => {
      const talk = new Talk(client);
      const run = await talk.say('error');
      assert.equal(run.last.type, 'RUN_ERROR');
      assert.equal(run.last.code, 'demo_error');
      assert.equal(run.last.message, 'The demo agent failed on purpose.');
      finishedWell(await talk.say('text')); // the thread lives on
    });

    test('a tour for everything else', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('hello'));
      assert.match(talk.lastText, /I am the demo agent/);
    });

    test('two turns on one thread', async () => {
      const talk = new Talk(client);
      finishedWell(await talk.say('text'));
      finishedWell(await talk.say('tool'));
      finishedWell(await talk.say('tool')); // the agent's ids repeat; what clients see must not
      assert.equal(talk.agent.messages.filter((m) => m.role === 'user').length, 3);
      assert.equal(talk.calls('get_weather').length, 2);
      assert.equal(new Set(talk.calls('get_weather').map((c) => c.id)).size, 2);
    });
  });
}
