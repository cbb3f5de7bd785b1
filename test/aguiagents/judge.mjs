// Both official clients talk to an agent through Aqueduct. What each has to see is the same for all agents, but for what an
// agent cannot do.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HttpAgent as HttpAgent0 } from 'agui0';
import { HttpAgent as HttpAgent1 } from 'agui1';

const url = `${process.env.AQUEDUCT_URL}/api/agui/chat?agent=${process.env.AGENT}`;
const showMap = { name: 'show_map', description: 'Shows a map', parameters: { type: 'object', properties: { lat: { type: 'number' } } } };

// A warning is how the clients report that a stream is not what the protocol promises.
const complaints = [];
for (const level of ['warn', 'error']) console[level] = (...words) => complaints.push(words.map(String).join(' '));

const types = (events) => events.map((e) => e.type);
const once = (events, type) => assert.equal(types(events).filter((t) => t === type).length, 1, `${type} in ${types(events)}`);
const written = (agent) => agent.messages.map((m) => [m.id, m.role, m.content ?? '', ...(m.toolCalls ?? []).map((c) => [c.id, c.function.name, c.function.arguments])]);

/** What the tools of an agent have sent, for one that says so. */
async function sent() {
  return (await fetch(`${process.env.AGENT_URL}/sent`)).json();
}

/** A conversation of one client in a thread of its own. */
function talk(HttpAgent) {
  const agent = new HttpAgent({ url, threadId: randomUUID() });
  const run = async (parameters) => {
    const events = [];
    await agent.runAgent({ runId: randomUUID(), tools: [showMap], ...parameters }, { onEvent: ({ event }) => { events.push(event); } });
    assert.deepEqual(complaints.splice(0), [], 'the client complains');
    const failed = events.find((e) => e.type === 'RUN_ERROR');
    assert.equal(failed, undefined, failed?.message);
    return events;
  };
  const say = (content) => {
    agent.addMessage({ id: randomUUID(), role: 'user', content });
    return run();
  };
  const text = () => agent.messages.filter((m) => m.role === 'assistant' && m.content).at(-1)?.content;
  return { agent, run, say, text };
}

/** Whoever joins reads what was streamed. */
async function rejoins(HttpAgent, agent) {
  const joined = new HttpAgent({ url, threadId: agent.threadId });
  await joined.runAgent({ runId: randomUUID(), tools: [showMap] });
  assert.deepEqual(complaints.splice(0), [], 'the client complains of a join');
  assert.deepEqual(written(joined), written(agent));
}

/**
 * judge has both clients talk to the agent. can: pieces (arguments come as the model writes them), state (the word count),
 * sent (GET /sent), told (interrupts come by CUSTOM on_interrupt), asksFreely (ask makes it ask a question); approved and declined
 * are what the tool gives; asks are the calls that show the question.
 */
export function judge(can) {
  const clients = [['@ag-ui/client 1.0.0', HttpAgent1], ['@ag-ui/client 0.0.59', HttpAgent0]];
  for (const [name, HttpAgent] of can.asksFreely ? clients : []) {
    test(`${name}: a question with a free answer`, async () => {
      const { say, run, text, agent } = talk(HttpAgent);
      const first = await say('ask please');
      const told = first.find((e) => e.name === 'on_interrupt');
      const pending = async () => (await (await fetch(`${process.env.AQUEDUCT_URL}/api/approvals?status=PENDING`)).json()).approvals.filter((a) => a.thread_id === agent.threadId);
      const [question, ...more] = await pending();
      assert.deepEqual(more, []);
      assert.deepEqual([question.kind, question.title], ['input', 'What is your name?']);
      assert.deepEqual(JSON.parse(told.value), { question: 'What is your name?' });
      assert.deepEqual(told.metadata.aqueduct.questionIds, [question.approval_id]);
      if (can.told) await run({ forwardedProps: { command: { resume: 'Ada', interruptEvent: told.value } } });
      else await run({ resume: [{ interruptId: question.approval_id, status: 'resolved', payload: 'Ada' }] });
      assert.match(text(), /"name":"Ada"/);
      assert.deepEqual(await pending(), []);
      await say('hello');
      assert.equal(text(), 'You wrote: ask please, hello');
    });
  }

  for (const [name, HttpAgent] of clients) {
    test(`${name}: text, and what was said before`, async () => {
      const { say, text, agent } = talk(HttpAgent);
      await say('hello');
      assert.equal(text(), 'You wrote: hello');
      await say('again');
      assert.equal(text(), 'You wrote: hello, again');
      assert.equal(agent.messages.length, 4);
      await rejoins(HttpAgent, agent);
    });

    test(`${name}: a tool of the agent, twice`, async () => {
      const { say, text, agent } = talk(HttpAgent);
      for (const turn of [1, 2]) {
        const events = await say('weather please');
        once(events, 'TOOL_CALL_START');
        once(events, 'TOOL_CALL_RESULT');
        if (can.pieces) assert.ok(events.filter((e) => e.type === 'TOOL_CALL_ARGS').length > 1, 'the arguments come in one piece');
        assert.match(text(), /"degrees":7/, `turn ${turn}`);
      }
      const ids = agent.messages.flatMap((m) => m.toolCalls ?? []).map((c) => c.id);
      assert.equal(new Set(ids).size, 2);
      await rejoins(HttpAgent, agent);
    });

    test(`${name}: a tool of the page`, async () => {
      const { say, run, text, agent } = talk(HttpAgent);
      const first = await say('page please');
      once(first, 'TOOL_CALL_START');
      const call = agent.messages.flatMap((m) => m.toolCalls ?? []).at(-1);
      assert.equal(call.function.name, 'show_map');
      assert.deepEqual(JSON.parse(call.function.arguments), { lat: 52 });
      agent.addMessage({ id: randomUUID(), role: 'tool', toolCallId: call.id, content: '{"shown":true}' });
      await run();
      assert.equal(text(), 'The tool gave {"shown":true}');
      await say('hello');
      assert.equal(text(), 'You wrote: page please, hello');
    });

    for (const approved of [true, false]) {
      test(`${name}: a tool that needs approval, ${approved ? 'approved' : 'rejected'}`, async () => {
        const { say, run, text, agent } = talk(HttpAgent);
        const before = can.sent ? await sent() : [];
        const first = await say('email please');
        assert.deepEqual(first.filter((e) => e.type === 'TOOL_CALL_START').map((e) => e.toolCallName), can.asks);
        const told = can.told && first.find((e) => e.name === 'on_interrupt');
        const [interrupt] = told ? first.at(-1).metadata.aqueduct.interrupts : first.at(-1).outcome.interrupts;
        assert.match(interrupt.message, can.message);
        if (can.sent) assert.deepEqual(await sent(), before, 'it was sent unasked');
        if (told) await run({ forwardedProps: { command: { resume: { approved }, interruptEvent: told.value } } });
        else if (agent.pendingInterrupts) await run({ resume: [{ interruptId: interrupt.id, status: 'resolved', payload: { approved } }] });
        else {
          agent.addMessage({ id: randomUUID(), role: 'tool', toolCallId: interrupt.id, content: JSON.stringify({ approved }) });
          await run();
        }
        if (can.sent) assert.equal((await sent()).length, before.length + (approved ? 1 : 0));
        assert.match(text(), approved ? can.approved ?? /"sent":"ada@example.org"/ : can.declined);
        await say('hello');
        assert.equal(text(), 'You wrote: email please, hello');
      });
    }

    test(`${name}: the state`, { skip: !can.state }, async () => {
      const { say, agent } = talk(HttpAgent);
      await say('count please');
      assert.equal(agent.state.count, 2);
      const joined = new HttpAgent({ url, threadId: agent.threadId });
      await joined.runAgent({ runId: randomUUID(), tools: [showMap] });
      assert.equal(joined.state.count, 2);
      complaints.splice(0);
    });

    test(`${name}: the model breaks`, { skip: !can.breaks }, async () => {
      const { agent } = talk(HttpAgent);
      agent.addMessage({ id: randomUUID(), role: 'user', content: 'broken please' });
      let failed;
      await agent.runAgent({ runId: randomUUID() }, { onRunErrorEvent: ({ event }) => { failed = event; } }).catch(() => {});
      complaints.splice(0);
      assert.ok(failed?.message, 'the run does not end with an error');
    });
  }
}
