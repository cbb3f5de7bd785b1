// What a thread looks like after each AG-UI event. No DOM in here, so that Node can test it.

import { remoteFiles } from './files.js';
import { applyPatch } from './patch.js';

/** emptyThread is a thread before its first event. */
export function emptyThread() {
  return {
    messages: [], // in order; user, assistant, reasoning, activity, note
    results: new Map(), // toolCallId → content
    answers: new Map(), // id of a result's message → toolCallId
    state: undefined,
    steps: [], // names of open steps
    run: null, // {id, status}: running, finished, interrupt, cancelled or error
    interrupts: [],
    problem: '',
    byId: new Map(), // id → message
    callsById: new Map(), // id → {message, call}
    changed: new Set(), // messages to be drawn; who draws them takes them out
    changedCalls: new Map(), // message → Set of its calls to be drawn
    listChanged: true, // messages went, or are in another order
  };
}

/** fold applies one event. */
export function fold(thread, event) {
  if (Object.hasOwn(folds, event.type)) folds[event.type](thread, event);
}

const folds = {
  RUN_STARTED(t, e) {
    t.run = { id: e.runId, status: 'running' };
    setInterrupts(t, []);
    t.steps = [];
    t.problem = '';
    for (const m of e.input?.messages ?? []) {
      if (!find(t, m.id)) addMessage(t, m);
    }
  },
  RUN_FINISHED(t, e) {
    // A run that asked by CUSTOM on_interrupt has no outcome; its questions are in the metadata.
    const asked = e.outcome?.interrupts ?? e.metadata?.aqueduct?.interrupts ?? [];
    const type = asked.length ? 'interrupt' : e.outcome?.type ?? 'success';
    t.run = { id: e.runId, status: type === 'success' ? 'finished' : type };
    setInterrupts(t, asked);
    t.steps = [];
  },
  RUN_ERROR(t, e) {
    t.run = { id: t.run?.id, status: 'error' };
    t.problem = e.message;
    t.steps = [];
  },

  TEXT_MESSAGE_START: (t, e) => open(t, e.messageId, e.role ?? 'assistant'),
  TEXT_MESSAGE_CONTENT: (t, e) => append(t, e.messageId, e.delta),
  REASONING_MESSAGE_START: (t, e) => open(t, e.messageId, 'reasoning'),
  REASONING_MESSAGE_CONTENT: (t, e) => append(t, e.messageId, e.delta),

  TOOL_CALL_START(t, e) {
    // Without a parent the call is a message of its own, as in the official client.
    const message = open(t, e.parentMessageId ?? e.toolCallId, 'assistant');
    if (!findCall(t, e.toolCallId)) addCall(t, message, { id: e.toolCallId, name: e.toolCallName, args: '' });
  },
  TOOL_CALL_ARGS(t, e) {
    const call = findCall(t, e.toolCallId);
    if (!call) return;
    call.args += e.delta;
    touchCall(t, e.toolCallId);
  },
  TOOL_CALL_RESULT: (t, e) => setResult(t, e),

  STATE_SNAPSHOT(t, e) {
    t.state = e.snapshot;
  },
  STATE_DELTA(t, e) {
    t.state = patched(t.state, e.delta);
  },

  ACTIVITY_SNAPSHOT(t, e) {
    const shown = find(t, e.messageId);
    if (shown && e.replace === false) return;
    const message = shown ?? open(t, e.messageId, 'activity');
    message.type = e.activityType;
    message.content = e.content;
    t.changed.add(message);
  },
  ACTIVITY_DELTA(t, e) {
    const message = find(t, e.messageId);
    if (!message) return;
    message.content = patched(message.content, e.patch);
    t.changed.add(message);
  },

  MESSAGES_SNAPSHOT(t, e) {
    t.messages = [];
    t.results = new Map();
    t.answers = new Map();
    for (const known of [t.byId, t.callsById, t.changed, t.changedCalls]) known.clear();
    t.listChanged = true;
    for (const m of e.messages) addMessage(t, m);
  },

  STEP_STARTED: (t, e) => t.steps.push(e.stepName),
  STEP_FINISHED(t, e) {
    t.steps = t.steps.filter((name) => name !== e.stepName);
  },

  CUSTOM(t, e) {
    if (e.name === 'message_changed') change(t, e.value);
    if (e.name !== 'question_settled') return;
    const note = open(t, `note-${t.messages.length}`, 'note');
    note.content = settledNote(e.value);
    t.changed.add(note);
  },
};

// patched keeps the old value when a patch does not fit; the next snapshot puts it right.
function patched(value, patch) {
  try {
    return applyPatch(value, patch);
  } catch (err) {
    console.warn('patch not applied:', err.message);
    return value;
  }
}

function find(t, id) {
  return t.byId.get(id);
}

/** findCall finds a tool call by its id. */
export function findCall(t, id) {
  return t.callsById.get(id)?.call;
}

function addCall(t, message, call) {
  message.calls.push(call);
  t.callsById.set(call.id, { message, call });
  touchCall(t, call.id);
}

function touchCall(t, id) {
  const { message, call } = t.callsById.get(id) ?? {};
  if (!call) return;
  t.changed.add(message);
  if (!t.changedCalls.has(message)) t.changedCalls.set(message, new Set());
  t.changedCalls.get(message).add(call);
}

function setResult(t, { toolCallId, content, messageId, id = messageId }) {
  t.answers.set(id, toolCallId);
  t.results.set(toolCallId, textOf(content));
  touchCall(t, toolCallId);
}

// change applies an agent's change of a message since it was streamed: its text, its calls, its place.
function change(t, { messageId, role, content, toolCalls, after }) {
  if (content !== undefined && t.answers.has(messageId)) setResult(t, { toolCallId: t.answers.get(messageId), content, messageId });
  const message = role ? open(t, messageId, role) : find(t, messageId);
  if (!message) return;
  if (content !== undefined) message.content = textOf(content);
  if (toolCalls) {
    message.calls = [];
    for (const c of toolCalls) addCall(t, message, { id: c.id, name: c.function.name, args: c.function.arguments });
  }
  const before = find(t, after);
  if (before && before !== message) {
    t.messages.splice(t.messages.indexOf(message), 1);
    t.messages.splice(t.messages.indexOf(before) + 1, 0, message);
    t.listChanged = true;
  }
  t.changed.add(message);
}

// setInterrupts also has the calls drawn anew that stop or begin to be questions.
function setInterrupts(t, interrupts) {
  for (const i of [...t.interrupts, ...interrupts]) touchCall(t, i.toolCallId ?? i.id);
  t.interrupts = interrupts;
}

function open(t, id, role) {
  const shown = find(t, id);
  if (shown) return shown;
  const message = { id, role, content: '', calls: [] };
  t.messages.push(message);
  t.byId.set(id, message);
  t.changed.add(message);
  return message;
}

function append(t, id, delta) {
  const message = find(t, id);
  if (!message) return;
  message.content += delta;
  t.changed.add(message);
}

/** addMessage takes a message as AG-UI writes it in a snapshot or an input. */
export function addMessage(t, m) {
  if (m.role === 'tool') {
    setResult(t, m);
    return;
  }
  if (m.role === 'system' || m.role === 'developer') return; // not part of the talk
  const message = open(t, m.id, m.role);
  message.content = m.role === 'activity' ? m.content : textOf(m.content);
  message.files = remoteFiles(m.content);
  message.type = m.activityType;
  message.calls = [];
  for (const c of m.toolCalls ?? []) addCall(t, message, { id: c.id, name: c.function.name, args: c.function.arguments });
}

/** textOf is the words of a content: itself, or the text parts of a list. */
export function textOf(content) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join('');
}

// settledNote: {id, status, optionId?, decidedBy, via}, as the server tells a late answer.
function settledNote({ status, decidedBy, via } = {}) {
  const how = String(status ?? 'settled').toLowerCase();
  return `Somebody was faster: ${how}${decidedBy ? ` by ${decidedBy}` : ''}${via ? ` (${via})` : ''}.`;
}
