// A strict reader of what TDesign Chat is sent: its engine checks nothing, and draws nothing
// or the wrong thing where a rule is broken.

import assert from 'node:assert/strict';

const known = new Set(['RUN_STARTED', 'RUN_FINISHED', 'RUN_ERROR', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END',
  'THINKING_START', 'THINKING_END', 'THINKING_TEXT_MESSAGE_START', 'THINKING_TEXT_MESSAGE_CONTENT', 'THINKING_TEXT_MESSAGE_END',
  'TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END', 'TOOL_CALL_RESULT', 'STATE_SNAPSHOT', 'STATE_DELTA',
  'ACTIVITY_SNAPSHOT', 'ACTIVITY_DELTA', 'STEP_STARTED', 'STEP_FINISHED', 'CUSTOM', 'RAW']);

/** readTDesign checks the frames of one response, which holds one Run, and gives its events. */
export function readTDesign(list) {
  const open = new Set();
  const begun = new Map(); // calls since RUN_STARTED, with their arguments; a result for another is not shown
  const activities = new Set();
  let seq = 0;
  const begin = (key) => { assert.ok(!open.has(key), `${key} is begun twice`); open.add(key); };
  const end = (key) => assert.ok(open.delete(key), `${key} was not open`);
  list.forEach(({ id, event: e }, i) => {
    assert.ok(known.has(e.type), `TDesign does not know ${e.type}`);
    assert.equal(e.type === 'RUN_STARTED', i === 0, `${e.type} at ${i}`);
    assert.equal(e.type === 'RUN_FINISHED' || e.type === 'RUN_ERROR', i === list.length - 1, `${e.type} at ${i} of ${list.length}`);
    assert.ok(!open.has('thinking') || e.type.startsWith('THINKING_'), `${e.type} inside thoughts`);
    assert.notEqual(e.delta, '', 'an empty delta');
    assert.ok(id === undefined || Number(id) > seq, `id ${id} after ${seq}`);
    seq = Number(id ?? seq);
    switch (e.type) {
      case 'THINKING_START': return begin('thinking');
      case 'THINKING_END': return end('thinking');
      case 'THINKING_TEXT_MESSAGE_START': return begin('thought');
      case 'THINKING_TEXT_MESSAGE_END': return end('thought');
      case 'THINKING_TEXT_MESSAGE_CONTENT': return assert.ok(open.has('thought') && typeof e.delta === 'string');
      case 'TEXT_MESSAGE_START': return begin(`text ${e.messageId}`);
      case 'TEXT_MESSAGE_END': return end(`text ${e.messageId}`);
      case 'TEXT_MESSAGE_CONTENT': return assert.ok(open.has(`text ${e.messageId}`) && typeof e.delta === 'string');
      case 'TOOL_CALL_START':
        assert.equal(typeof e.toolCallName, 'string');
        begun.set(e.toolCallId, '');
        return begin(`call ${e.toolCallId}`);
      case 'TOOL_CALL_ARGS': {
        const args = begun.get(e.toolCallId);
        assert.ok(args !== undefined && typeof e.delta === 'string', 'arguments of no call');
        if (!open.has(`call ${e.toolCallId}`)) {
          assert.throws(() => JSON.parse(args), 'arguments behind arguments that are whole'); // those of a call ended early go on
          open.add(`call ${e.toolCallId}`);
        }
        return begun.set(e.toolCallId, args + e.delta);
      }
      case 'TOOL_CALL_END': return end(`call ${e.toolCallId}`);
      case 'TOOL_CALL_RESULT':
        assert.ok(e.messageId, 'a result without a message id');
        assert.ok(e.toolCallName || !begun.has(e.toolCallId), 'a result without its tool');
        return JSON.parse(e.content);
      case 'STATE_SNAPSHOT': return assert.ok(e.snapshot !== null && typeof e.snapshot === 'object', 'state that is no object');
      case 'STATE_DELTA':
        checkPatch(e.delta);
        return assert.equal(new Set(e.delta.map((op) => op.path.split('/')[1])).size, 1, 'one key per delta');
      case 'ACTIVITY_SNAPSHOT':
        assert.ok(e.content !== null && typeof e.content === 'object' && !Array.isArray(e.content), 'content that is no object');
        return activities.add(e.messageId);
      case 'ACTIVITY_DELTA':
        assert.ok(activities.has(e.messageId), 'a patch of what is not shown');
        return checkPatch(e.patch);
      default: return undefined;
    }
  });
  assert.ok(list.length > 1, 'nothing but a start');
  assert.deepEqual(list.at(-1).event.type === 'RUN_ERROR' ? [] : [...open], [], 'left open');
  return list.map(({ event }) => event);
}

// checkPatch allows the operations that TDesign and RFC 6902 understand alike.
function checkPatch(patch) {
  assert.ok(Array.isArray(patch), `no patch: ${JSON.stringify(patch)}`);
  for (const op of patch) {
    assert.ok(['add', 'replace', 'remove'].includes(op.op), `TDesign does not know ${op.op}`);
    assert.match(op.path, /^(\/([^~/]|~[01])*)+$/);
    assert.equal('value' in op || op.op === 'remove', true, 'no value');
  }
}
