// What a thread looks like after each AG-UI event. No DOM in here, so that Node can test it.

import { applyPatch } from './patch.js';

/** emptyThread is a thread before its first event. */
export function emptyThread() {
  return {
    messages: [], // in order; user, assistant, reasoning, activity, note
    results: new Map(), // toolCallId → content
    state: undefined,
    steps: [], // names of open steps
    run: null, // {id, status}: running, finished, interrupt, cancelled or error
    interrupts: [],
    problem: '',
  };
}

/** fold applies one event. */
export function fold(thread, event) {
  if (Object.hasOwn(folds, event.type)) folds[event.type](thread, event);
}

const folds = {
  RUN_STARTED(t, e) {
    t.run = { id: e.runId, status: 'running' };
    t.interrupts = [];
    t.steps = [];
    t.problem = '';
    for (const m of e.input?.messages ?? []) {
      if (!find(t, m.id)) addMessage(t, m);
    }
  },
  RUN_FINISHED(t, e) {
    const type = e.outcome?.type ?? 'success';
    t.run = { id: e.runId, status: type === 'success' ? 'finished' : type };
    t.interrupts = e.outcome?.interrupts ?? [];
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
    if (!message.calls.some((c) => c.id === e.toolCallId)) {
      message.calls.push({ id: e.toolCallId, name: e.toolCallName, args: '' });
    }
  },
  TOOL_CALL_ARGS(t, e) {
    const call = findCall(t, e.toolCallId);
    if (call) call.args += e.delta;
  },
  TOOL_CALL_RESULT: (t, e) => t.results.set(e.toolCallId, textOf(e.content)),

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
  },
  ACTIVITY_DELTA(t, e) {
    const message = find(t, e.messageId);
    if (message) message.content = patched(message.content, e.patch);
  },

  MESSAGES_SNAPSHOT(t, e) {
    t.messages = [];
    t.results = new Map();
    for (const m of e.messages) addMessage(t, m);
  },

  STEP_STARTED: (t, e) => t.steps.push(e.stepName),
  STEP_FINISHED(t, e) {
    t.steps = t.steps.filter((name) => name !== e.stepName);
  },

  CUSTOM(t, e) {
    if (e.name !== 'question_settled') return;
    open(t, `note-${t.messages.length}`, 'note').content = settledNote(e.value);
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
  return t.messages.find((m) => m.id === id);
}

/** findCall finds a tool call by its id. */
export function findCall(t, id) {
  for (const m of t.messages) {
    const call = m.calls.find((c) => c.id === id);
    if (call) return call;
  }
  return undefined;
}

function open(t, id, role) {
  const shown = find(t, id);
  if (shown) return shown;
  const message = { id, role, content: '', calls: [] };
  t.messages.push(message);
  return message;
}

function append(t, id, delta) {
  const message = find(t, id);
  if (message) message.content += delta;
}

// addMessage takes a message as AG-UI writes it in a snapshot or an input.
function addMessage(t, m) {
  if (m.role === 'tool') {
    t.results.set(m.toolCallId, textOf(m.content));
    return;
  }
  if (m.role === 'system' || m.role === 'developer') return; // not part of the talk
  const message = open(t, m.id, m.role);
  message.content = m.role === 'activity' ? m.content : textOf(m.content);
  message.type = m.activityType;
  message.calls = (m.toolCalls ?? []).map((c) => ({ id: c.id, name: c.function.name, args: c.function.arguments }));
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
