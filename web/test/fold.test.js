import assert from 'node:assert/strict';
import { test } from 'node:test';

import { emptyThread, findCall, fold, textOf } from '../static/fold.js';

function after(...events) {
  const t = emptyThread();
  for (const e of events) fold(t, e);
  return t;
}

const started = { type: 'RUN_STARTED', threadId: 't', runId: 'r1' };

test('text, thoughts and a call with its result', () => {
  const t = after(started,
    { type: 'REASONING_MESSAGE_START', messageId: 'r', role: 'reasoning' },
    { type: 'REASONING_MESSAGE_CONTENT', messageId: 'r', delta: 'hm' },
    { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' },
    { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'Hel' },
    { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'lo' },
    { type: 'TOOL_CALL_START', toolCallId: 'c', toolCallName: 'look', parentMessageId: 'm' },
    { type: 'TOOL_CALL_ARGS', toolCallId: 'c', delta: '{"a"' },
    { type: 'TOOL_CALL_ARGS', toolCallId: 'c', delta: ':1}' },
    { type: 'TOOL_CALL_RESULT', messageId: 'x', toolCallId: 'c', content: 'seen' });
  assert.deepEqual(t.messages.map((m) => [m.role, m.content]), [['reasoning', 'hm'], ['assistant', 'Hello']]);
  assert.deepEqual(findCall(t, 'c'), { id: 'c', name: 'look', args: '{"a":1}' });
  assert.equal(t.results.get('c'), 'seen');
  assert.equal(t.run.status, 'running');
});

test('a call without a parent is a message of its own', () => {
  const t = after(started, { type: 'TOOL_CALL_START', toolCallId: 'c', toolCallName: 'look' });
  assert.deepEqual(t.messages.map((m) => m.id), ['c']);
});

test('state and activities', () => {
  const t = after(started,
    { type: 'STATE_SNAPSHOT', snapshot: { n: { v: 1 } } },
    { type: 'STATE_DELTA', delta: [{ op: 'replace', path: '/n/v', value: 2 }] },
    { type: 'ACTIVITY_SNAPSHOT', messageId: 'a', activityType: 'plan', content: { entries: [] } },
    { type: 'ACTIVITY_SNAPSHOT', messageId: 'a', activityType: 'plan', content: { lost: true }, replace: false },
    { type: 'ACTIVITY_DELTA', messageId: 'a', activityType: 'plan', patch: [{ op: 'add', path: '/entries/-', value: 1 }] });
  assert.deepEqual(t.state, { n: { v: 2 } });
  assert.deepEqual(t.messages[0].content, { entries: [1] });
});

test('a patch that does not fit leaves the state', (c) => {
  const warned = c.mock.method(console, 'warn', () => {});
  const t = after(started, { type: 'STATE_SNAPSHOT', snapshot: { n: 1 } },
    { type: 'STATE_DELTA', delta: [{ op: 'replace', path: '/x', value: 2 }] });
  assert.deepEqual(t.state, { n: 1 });
  assert.equal(warned.mock.callCount(), 1);
});

test('how a Run ends', () => {
  const interrupt = { id: 'q', reason: 'tool_call', toolCallId: 'q' };
  const asked = after(started, { type: 'RUN_FINISHED', runId: 'r1', outcome: { type: 'interrupt', interrupts: [interrupt] } });
  assert.equal(asked.run.status, 'interrupt');
  assert.deepEqual(asked.interrupts, [interrupt]);
  fold(asked, { type: 'RUN_STARTED', runId: 'r2' });
  assert.deepEqual(asked.interrupts, [], 'the next Run settles what was asked');
  assert.equal(after(started, { type: 'RUN_FINISHED', runId: 'r1' }).run.status, 'finished');
  assert.equal(after(started, { type: 'RUN_FINISHED', runId: 'r1', outcome: { type: 'cancelled' } }).run.status, 'cancelled');
  const failed = after(started, { type: 'RUN_ERROR', message: 'no', code: 'x' });
  assert.deepEqual([failed.run.status, failed.problem], ['error', 'no']);
});

test('a join replays a Run over its snapshot', () => {
  const run = [
    { type: 'REASONING_MESSAGE_START', messageId: 'r', role: 'reasoning' },
    { type: 'REASONING_MESSAGE_CONTENT', messageId: 'r', delta: 'hm' },
    { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' },
    { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'Hello' },
  ];
  const t = after(started, ...run);
  fold(t, started);
  fold(t, { type: 'MESSAGES_SNAPSHOT', messages: [{ id: 'u', role: 'user', content: 'hi' }, { id: 'r', role: 'reasoning', content: '' }] });
  for (const e of run) fold(t, e);
  assert.deepEqual(t.messages.map((m) => [m.id, m.content]), [['u', 'hi'], ['r', 'hm'], ['m', 'Hello']]);
});

test('a snapshot brings calls, results and activities', () => {
  const t = after(started, { type: 'MESSAGES_SNAPSHOT', messages: [
    { id: 's', role: 'system', content: 'never shown' },
    { id: 'u', role: 'user', content: [{ type: 'text', text: 'see ' }, { type: 'image', source: {} }] },
    { id: 'a', role: 'assistant', toolCalls: [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{}' } }] },
    { id: 'x', role: 'tool', toolCallId: 'c', content: 'seen' },
    { id: 'p', role: 'activity', activityType: 'plan', content: { entries: [] } },
  ] });
  assert.deepEqual(t.messages.map((m) => m.id), ['u', 'a', 'p']);
  assert.equal(t.messages[0].content, 'see [image]');
  assert.equal(findCall(t, 'c').name, 'look');
  assert.equal(t.results.get('c'), 'seen');
});

test('a late answer is told who was faster', () => {
  const t = after(started, { type: 'CUSTOM', name: 'question_settled', value: { id: 'q', status: 'APPROVED', optionId: 'once', decidedBy: 'ada', via: 'rest' } });
  assert.deepEqual(t.messages.map((m) => [m.role, m.content]), [['note', 'Somebody was faster: approved by ada (rest).']]);
  fold(t, { type: 'CUSTOM', name: 'something else', value: {} });
  assert.equal(t.messages.length, 1);
});

test('an unknown event changes nothing', () => {
  const t = after(started);
  const before = structuredClone(t);
  fold(t, { type: 'SOMETHING_NEW' });
  fold(t, { type: 'constructor' });
  assert.deepEqual(t, before);
});

test('textOf takes whatever a content may be', () => {
  assert.equal(textOf('a'), 'a');
  assert.equal(textOf(undefined), '');
});

test('a message that its agent has changed since', () => {
  const t = after(started,
    { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' },
    { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'secret' },
    { type: 'CUSTOM', name: 'message_changed', value: { messageId: 'm', metadata: { a: 1 } } },
    { type: 'CUSTOM', name: 'message_changed', value: { messageId: 'other', content: 'x' } });
  assert.equal(t.messages[0].content, 'secret');
  fold(t, { type: 'CUSTOM', name: 'message_changed', value: { messageId: 'm', content: 'taken back' } });
  assert.deepEqual(t.messages.map((m) => m.content), ['taken back']);
});

test('calls that their agent has changed since, a result, and another order', () => {
  const call = (id, name, args) => ({ id, type: 'function', function: { name, arguments: args } });
  const changed = (value) => ({ type: 'CUSTOM', name: 'message_changed', value });
  const t = after(started,
    { type: 'TOOL_CALL_START', toolCallId: 'c', toolCallName: 'look', parentMessageId: 'm' },
    { type: 'TOOL_CALL_ARGS', toolCallId: 'c', delta: '{}{}' },
    { type: 'TOOL_CALL_RESULT', messageId: 'r', toolCallId: 'c', content: 'six' },
    { type: 'TEXT_MESSAGE_START', messageId: 'n', role: 'assistant' },
    changed({ messageId: 'm', toolCalls: [call('c', 'look', '{"n":1}'), call('d', 'look', '{"n":2}')] }),
    changed({ messageId: 'r', content: 'seven' }),
    changed({ messageId: 'o', role: 'assistant', toolCalls: [call('e', 'see', '{}')] }),
    changed({ messageId: 'm', after: 'n' }));
  assert.deepEqual(t.messages.map((m) => [m.id, m.calls.map((c) => c.args)]), [['n', []], ['m', ['{"n":1}', '{"n":2}']], ['o', ['{}']]]);
  assert.equal(t.results.get('c'), 'seven');
  assert.ok(t.listChanged);
});
