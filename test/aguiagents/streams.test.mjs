// What both official clients take of an agent, Aqueduct takes; what both refuse, it refuses, and names the event. The clients
// are asked for each stream, so that this table has no opinion of its own.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HttpAgent as HttpAgent0 } from 'agui0';
import { HttpAgent as HttpAgent1 } from 'agui1';

for (const level of ['warn', 'error']) console[level] = () => {};

const start = { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' };
const content = { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'x' };
const end = { type: 'TEXT_MESSAGE_END', messageId: 'm' };
const call = { type: 'TOOL_CALL_START', toolCallId: 'c', toolCallName: 'look' };
const args = { type: 'TOOL_CALL_ARGS', toolCallId: 'c', delta: '{}' };
const called = { type: 'TOOL_CALL_END', toolCallId: 'c' };
const result = { type: 'TOOL_CALL_RESULT', messageId: 't', toolCallId: 'c', content: '7' };
const think = { type: 'REASONING_START', messageId: 'r' };
const thought = { type: 'REASONING_END', messageId: 'r' };
const say = { type: 'REASONING_MESSAGE_START', messageId: 'r', role: 'reasoning' };
const saying = { type: 'REASONING_MESSAGE_CONTENT', messageId: 'r', delta: 'hm' };
const said = { type: 'REASONING_MESSAGE_END', messageId: 'r' };
const step = { type: 'STEP_STARTED', stepName: 's' };
const stepped = { type: 'STEP_FINISHED', stepName: 's' };
const activity = { type: 'ACTIVITY_SNAPSHOT', messageId: 'a', activityType: 'x', content: { n: 1 } };
const without = (event, ...names) => Object.fromEntries(Object.entries(event).filter(([name]) => !names.includes(name)));

const table = {
  // what is not there
  'STATE_SNAPSHOT without snapshot': [{ type: 'STATE_SNAPSHOT' }],
  'STATE_SNAPSHOT of null': [{ type: 'STATE_SNAPSHOT', snapshot: null }],
  'STATE_DELTA without delta': [{ type: 'STATE_DELTA' }],
  'STATE_DELTA of null': [{ type: 'STATE_DELTA', delta: null }],
  'STATE_DELTA of an object': [{ type: 'STATE_DELTA', delta: {} }],
  'STATE_DELTA without operations': [{ type: 'STATE_DELTA', delta: [] }],
  'MESSAGES_SNAPSHOT without messages': [{ type: 'MESSAGES_SNAPSHOT' }],
  'MESSAGES_SNAPSHOT of null': [{ type: 'MESSAGES_SNAPSHOT', messages: null }],
  'RAW without event': [{ type: 'RAW' }],
  'RAW of null': [{ type: 'RAW', event: null }],
  'CUSTOM without value': [{ type: 'CUSTOM', name: 'n' }],
  'CUSTOM of null': [{ type: 'CUSTOM', name: 'n', value: null }],
  'CUSTOM without name': [{ type: 'CUSTOM', value: 1 }],
  'TEXT_MESSAGE_START without messageId': [without(start, 'messageId')],
  'TEXT_MESSAGE_START without role': [without(start, 'role'), content, end],
  'TEXT_MESSAGE_CONTENT without delta': [start, without(content, 'delta'), end],
  'TEXT_MESSAGE_CONTENT of null': [start, { ...content, delta: null }, end],
  'TEXT_MESSAGE_CONTENT of nothing': [start, { ...content, delta: '' }, end],
  'TEXT_MESSAGE_CONTENT without messageId': [start, without(content, 'messageId'), end],
  'TEXT_MESSAGE_END without messageId': [start, content, without(end, 'messageId')],
  'TEXT_MESSAGE_CHUNK without messageId': [{ type: 'TEXT_MESSAGE_CHUNK', delta: 'x' }],
  'TEXT_MESSAGE_CHUNK without delta': [{ type: 'TEXT_MESSAGE_CHUNK', messageId: 'm' }],
  'TOOL_CALL_START without toolCallName': [without(call, 'toolCallName'), called],
  'TOOL_CALL_START without toolCallId': [without(call, 'toolCallId')],
  'TOOL_CALL_START of no name': [{ ...call, toolCallName: '' }, args, called, result],
  'TOOL_CALL_CHUNK of no name': [{ type: 'TOOL_CALL_CHUNK', toolCallId: 'c', toolCallName: '', delta: '{}' }],
  'TEXT_MESSAGE_START of no id': [{ ...start, messageId: '' }, { ...content, messageId: '' }, { ...end, messageId: '' }],
  'TOOL_CALL_START of no id': [{ ...call, toolCallId: '' }, { ...args, toolCallId: '' }, { ...called, toolCallId: '' }],
  'TOOL_CALL_RESULT of no call': [{ ...result, toolCallId: '' }],
  'REASONING_MESSAGE_START of no id': [{ ...say, messageId: '' }, { ...saying, messageId: '' }, { ...said, messageId: '' }],
  'STEP_STARTED of no name': [{ ...step, stepName: '' }, { ...stepped, stepName: '' }],
  'CUSTOM of no name': [{ type: 'CUSTOM', name: '', value: 1 }],
  'ACTIVITY_SNAPSHOT of no type': [{ ...activity, activityType: '' }],
  'ACTIVITY_SNAPSHOT of no id': [{ ...activity, messageId: '' }],
  'REASONING_ENCRYPTED_VALUE of nothing': [{ type: 'REASONING_ENCRYPTED_VALUE', subtype: 'message', entityId: '', encryptedValue: '' }],
  'a message of a snapshot of no id': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: '', role: 'assistant', content: 'x' }] }],
  'a call of a snapshot of no name': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm', role: 'assistant', toolCalls: [{ id: 'c', type: 'function', function: { name: '', arguments: '{}' } }] }] }],
  'an empty snapshot': [start, content, end, { type: 'MESSAGES_SNAPSHOT', messages: [] }],
  'TOOL_CALL_ARGS without delta': [call, without(args, 'delta'), called],
  'TOOL_CALL_ARGS of null': [call, { ...args, delta: null }, called],
  'TOOL_CALL_ARGS of an object': [call, { ...args, delta: {} }, called],
  'TOOL_CALL_CHUNK without toolCallName': [{ type: 'TOOL_CALL_CHUNK', toolCallId: 'c', delta: '{}' }],
  'TOOL_CALL_CHUNK without toolCallId': [{ type: 'TOOL_CALL_CHUNK', toolCallName: 'look', delta: '{}' }],
  'TOOL_CALL_RESULT without messageId': [call, called, without(result, 'messageId')],
  'TOOL_CALL_RESULT without toolCallId': [call, called, without(result, 'toolCallId')],
  'TOOL_CALL_RESULT without content': [call, called, without(result, 'content')],
  'TOOL_CALL_RESULT of an object': [call, called, { ...result, content: { a: 1 } }],
  'TOOL_CALL_RESULT of parts': [call, called, { ...result, content: [{ type: 'text', text: '7' }] }],
  'TOOL_CALL_RESULT of another role': [call, called, { ...result, role: 'assistant' }],
  'REASONING_START without messageId': [without(think, 'messageId'), thought],
  'REASONING_MESSAGE_START without role': [without(say, 'role'), saying, said],
  'REASONING_MESSAGE_CONTENT without delta': [say, without(saying, 'delta'), said],
  'REASONING_ENCRYPTED_VALUE without entityId': [{ type: 'REASONING_ENCRYPTED_VALUE', subtype: 'message', encryptedValue: 'e' }],
  'REASONING_ENCRYPTED_VALUE without subtype': [{ type: 'REASONING_ENCRYPTED_VALUE', entityId: 'm', encryptedValue: 'e' }],
  'REASONING_ENCRYPTED_VALUE without encryptedValue': [{ type: 'REASONING_ENCRYPTED_VALUE', subtype: 'message', entityId: 'm' }],
  'REASONING_ENCRYPTED_VALUE of what is not there': [{ type: 'REASONING_ENCRYPTED_VALUE', subtype: 'message', entityId: 'z', encryptedValue: 'e' }],
  'STEP_STARTED without stepName': [without(step, 'stepName')],
  'STEP_FINISHED without stepName': [step, without(stepped, 'stepName')],
  'ACTIVITY_SNAPSHOT without content': [without(activity, 'content')],
  'ACTIVITY_SNAPSHOT without activityType': [without(activity, 'activityType')],
  'ACTIVITY_SNAPSHOT without messageId': [without(activity, 'messageId')],
  'ACTIVITY_SNAPSHOT of a list': [{ ...activity, content: [] }],
  'ACTIVITY_DELTA without patch': [activity, { type: 'ACTIVITY_DELTA', messageId: 'a', activityType: 'x' }],
  'ACTIVITY_DELTA of what is not there': [{ type: 'ACTIVITY_DELTA', messageId: 'z', activityType: 'x', patch: [] }],
  'an event without a type': [{ messageId: 'm' }],

  // what comes later, or never, or twice
  'parentMessageId of a message that comes later': [{ ...call, parentMessageId: 'm' }, args, called, start, content, end],
  'parentMessageId of a message that never comes': [{ ...call, parentMessageId: 'z' }, args, called],
  'parentMessageId of a message that is open': [start, { ...call, parentMessageId: 'm' }, args, called, content, end],
  'parentMessageId of null': [{ ...call, parentMessageId: null }, args, called],
  'parentMessageId of nothing': [{ ...call, parentMessageId: '' }, args, called],
  'parentMessageId of a thought': [say, saying, said, { ...call, parentMessageId: 'r' }, args, called],
  'parentMessageId of a result': [call, args, called, result, { ...call, toolCallId: 'c2', parentMessageId: 't' }, { ...called, toolCallId: 'c2' }],
  'TEXT_MESSAGE_END twice': [start, content, end, end],
  'TEXT_MESSAGE_END of another message': [start, content, { ...end, messageId: 'z' }, end],
  'TEXT_MESSAGE_END that was never begun': [end],
  'TEXT_MESSAGE_CONTENT that was never begun': [content],
  'TEXT_MESSAGE_CONTENT after the END': [start, content, end, content],
  'TEXT_MESSAGE_START twice': [start, start, content, end],
  'TEXT_MESSAGE_START of a message that has ended': [start, content, end, start, content, end],
  'TEXT_MESSAGE_END of a chunk': [{ type: 'TEXT_MESSAGE_CHUNK', messageId: 'm', delta: 'x' }, end],
  'TOOL_CALL_END twice': [call, args, called, called],
  'TOOL_CALL_END that was never begun': [called],
  'TOOL_CALL_END after the result': [call, args, result, called],
  'TOOL_CALL_END twice, around the result': [call, args, called, result, called],
  'TOOL_CALL_END twice, after the result': [call, args, result, called, called],
  'TOOL_CALL_ARGS that were never begun': [args],
  'TOOL_CALL_ARGS after the END': [call, args, called, args],
  'TOOL_CALL_START twice': [call, call, args, called],
  'TOOL_CALL_START of a call that has ended': [call, args, called, call, args, called],
  'TOOL_CALL_RESULT twice': [call, args, called, result, { ...result, messageId: 't2' }],
  'TOOL_CALL_RESULT twice in one message': [call, args, called, result, result],
  'TOOL_CALL_RESULT of a call that was never begun': [result],
  'REASONING_END twice': [think, thought, thought],
  'REASONING_END that was never begun': [thought],
  'REASONING_START twice': [think, think, thought],
  'REASONING_MESSAGE_END twice': [say, saying, said, said],
  'REASONING_MESSAGE_END that was never begun': [said],
  'REASONING_MESSAGE_CONTENT that was never begun': [saying],
  'REASONING_MESSAGE_START twice': [say, say, saying, said],
  'STEP_FINISHED twice': [step, stepped, stepped],
  'STEP_FINISHED that was never begun': [stepped],
  'STEP_STARTED twice': [step, step, stepped],
  'ACTIVITY_SNAPSHOT twice': [activity, activity],
  'STATE_SNAPSHOT twice': [{ type: 'STATE_SNAPSHOT', snapshot: {} }, { type: 'STATE_SNAPSHOT', snapshot: {} }],
  'RUN_STARTED twice': [{ type: 'RUN_STARTED', threadId: 't', runId: 'r' }],
  'RUN_FINISHED with a text open': [start, content],
  'RUN_FINISHED with a call open': [call, args],
  'RUN_FINISHED with a thought open': [think, say, saying],
  'RUN_FINISHED with a step open': [step],
  'SUBAGENT_FINISHED that was never begun': [{ type: 'SUBAGENT_FINISHED', subagentRunId: 's' }],
  'SUBAGENT_STARTED twice': [{ type: 'SUBAGENT_STARTED', subagentRunId: 's', name: 'n' }, { type: 'SUBAGENT_STARTED', subagentRunId: 's', name: 'n' }],
  'a chunk that changes its role': [{ type: 'TEXT_MESSAGE_CHUNK', messageId: 'm', role: 'assistant', delta: 'x' }, { type: 'TEXT_MESSAGE_CHUNK', messageId: 'm', role: 'system', delta: 'x' }],

  // what is of another kind than it should be
  'a message of a snapshot without id': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ role: 'assistant', content: 'x' }] }],
  'a message of a snapshot of an unknown role': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm', role: 'robot', content: 'x' }] }],
  'an answer of a snapshot of null': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm', role: 'assistant', content: null }] }],
  'an answer of a snapshot without content': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm', role: 'assistant' }] }],
  'an answer of a snapshot of parts': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm', role: 'assistant', content: [{ type: 'text', text: 'x' }] }] }],
  'a result of a snapshot without toolCallId': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 't', role: 'tool', content: 'x' }] }],
  'a call of a snapshot without arguments': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm', role: 'assistant', toolCalls: [{ id: 'c', type: 'function', function: { name: 'look' } }] }] }],
  'a call of a snapshot with an object': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm', role: 'assistant', toolCalls: [{ id: 'c', type: 'function', function: { name: 'look', arguments: {} } }] }] }],
  'two messages of a snapshot of one id': [{ type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'm', role: 'assistant', content: 'x' }, { id: 'm', role: 'assistant', content: 'y' }] }],
  'a role of its own': [{ ...start, role: 'tool' }, content, end],
  'an id that is a number': [{ ...start, messageId: 7 }],
  'a timestamp that is a text': [{ ...start, timestamp: 'now' }, content, end],
  'a timestamp with a fraction': [{ ...start, timestamp: 1.5 }, content, end],
  'a name that is null': [{ ...start, name: null }, content, end],
  'a rawEvent that is null': [{ ...start, rawEvent: null }, content, end],
  'a member that AG-UI does not have': [{ ...start, extra: 1 }, content, end],
  'a type that AG-UI does not have': [{ type: 'META_EVENT' }],
  'a name in another case': [{ type: 'TEXT_MESSAGE_START', message_id: 'm' }],
};

// What both clients refuse and Aqueduct repairs on purpose, each with what it makes of it: agents and adapters in use send these.
const repaired = {
  'TOOL_CALL_RESULT without messageId': 'it gets one, as the back ends of TDesign leave it out',
  'TEXT_MESSAGE_END of a chunk': 'the chunk ends',
  'STEP_FINISHED twice': 'the second is left out',
  'STEP_FINISHED that was never begun': 'it is left out',
  'STEP_STARTED twice': 'the first step ends',
  'RUN_STARTED twice': 'an agent that calls its model again says so',
  'RUN_FINISHED with a text open': 'what is open ends',
  'RUN_FINISHED with a call open': 'what is open ends',
  'RUN_FINISHED with a step open': 'what is open ends',
  'a name that is null': 'null is absent, as agents in Python write it',
  'an answer of a snapshot of null': 'null is absent, as in the histories of OpenAI',
  'a call of a snapshot without arguments': 'it has none',
  'REASONING_MESSAGE_START without role': 'agents from before 1.0 leave it out',
};

/** Whether a client ends a run of an agent without a complaint by itself or by the agent. */
async function takes(HttpAgent, url, events) {
  const agent = new HttpAgent({ url, threadId: randomUUID() });
  agent.addMessage({ id: randomUUID(), role: 'user', content: JSON.stringify(events) });
  let failed;
  try {
    await agent.runAgent({ runId: randomUUID() }, { onRunErrorEvent: ({ event }) => { failed = event; } });
  } catch (err) {
    failed ??= err;
  }
  return failed ?? true;
}

const verdict = (taken) => (taken === true ? 'taken' : 'refused');

for (const [name, events] of Object.entries(table)) {
  test(name, async () => {
    const [one, zero] = await Promise.all([HttpAgent1, HttpAgent0].map((client) => takes(client, process.env.AGENT_URL, events)));
    const here = await takes(HttpAgent1, `${process.env.AQUEDUCT_URL}/api/agui/chat`, events);
    if (process.env.SHOW_TABLE) console.log(`${verdict(one)}\t${verdict(zero)}\t${verdict(here)}\t${name}\t${here === true ? '' : here.message}`);
    if (name in repaired) {
      assert.deepEqual([verdict(one), verdict(zero), verdict(here)], ['refused', 'refused', 'taken']);
      return;
    }
    if (verdict(one) !== verdict(zero)) return; // they disagree, so either is right
    assert.equal(verdict(here), verdict(one), `both clients: ${verdict(one)}; Aqueduct: ${here.message ?? 'taken'}`);
    if (here === true) return;
    assert.equal(here.code, 'upstream_malformed');
    const types = events.map((e) => e.type ?? 'without a type');
    assert.ok(types.some((type) => here.message.includes(type)), `it does not name the event: ${here.message}`);
  });
}
