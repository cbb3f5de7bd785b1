// The two official clients, and what every test wants of them: no throw, no warning.

import assert from 'node:assert/strict';
import { HttpAgent as HttpAgent0 } from 'agui0';
import { HttpAgent as HttpAgent1 } from 'agui1';

import { base, newId } from './server.mjs';
import { authorization } from './token.mjs';

/** Both generations in use: 1.0.0, and the last of the 0.x line. */
export const clients = [
  { name: '@ag-ui/client 1.0.0', version: 1, HttpAgent: HttpAgent1 },
  { name: '@ag-ui/client 0.0.59', version: 0, HttpAgent: HttpAgent0 },
];

// A warning is how the clients say that a stream is not what the protocol promises.
const complaints = [];
for (const level of ['warn', 'error']) {
  console[level] = (...words) => complaints.push(`console.${level}: ${words.map(String).join(' ')}`);
}

/** noComplaints fails on everything a client has warned of since the last call. */
export function noComplaints() {
  const said = complaints.splice(0);
  assert.deepEqual(said, [], 'a client complained');
}

/** Talk is one client on one thread. */
export class Talk {
  constructor(client, { threadId = newId('thread'), messages = [], tools, fetch, url = `${base}/api/agui/chat` } = {}) {
    this.client = client;
    this.threadId = threadId;
    this.tools = tools;
    this.agent = new client.HttpAgent({ url, threadId, headers: authorization, initialMessages: messages, ...(fetch && { fetch }) });
  }

  /** say sends a prompt and reads its Run to the end. */
  say(text, options) {
    this.agent.addMessage({ id: newId('user'), role: 'user', content: text });
    return this.run(options);
  }

  /** answer resolves interrupts: [id, payload] each; without a payload it cancels. */
  answer(...entries) {
    return this.run({
      resume: entries.map(([interruptId, payload]) => (payload === undefined
        ? { interruptId, status: 'cancelled' }
        : { interruptId, status: 'resolved', payload })),
    });
  }

  /** answerAsTool answers a call as a frontend does that has the tool. */
  answerAsTool(toolCallId, result) {
    this.agent.addMessage({ id: newId('tool'), role: 'tool', toolCallId, content: JSON.stringify(result) });
    return this.run();
  }

  /** run posts what there is. onEvent sees each event as it comes. */
  async run({ onEvent, ...parameters } = {}) {
    const run = new Run();
    await this.agent.runAgent({ runId: newId('run'), ...(this.tools && { tools: this.tools }), ...parameters }, {
      onEvent: ({ event }) => {
        run.events.push(event);
        onEvent?.(event);
      },
    });
    return run;
  }

  /** join comes back to the thread with nothing but its id. */
  join(options) {
    return this.run(options);
  }

  get interrupts() {
    return this.agent.pendingInterrupts;
  }

  /** picture is all a frontend would draw, made comparable between threads. */
  get picture() {
    return { messages: shape(this.agent.messages), state: this.agent.state };
  }

  /** lastText is the newest words of the assistant. */
  get lastText() {
    return this.agent.messages.filter((m) => m.role === 'assistant' && m.content).at(-1)?.content ?? '';
  }

  calls(name) {
    return this.agent.messages.flatMap((m) => m.toolCalls ?? []).filter((c) => c.function.name === name);
  }

  result(toolCallId) {
    return this.agent.messages.find((m) => m.role === 'tool' && m.toolCallId === toolCallId)?.content;
  }
}

/** Run is what came of one request. */
class Run {
  events = [];

  get types() {
    return this.events.map((e) => e.type);
  }

  get last() {
    return this.events.at(-1);
  }

  get id() {
    return this.events[0].runId;
  }

  of(type) {
    return this.events.filter((e) => e.type === type);
  }

  custom(name) {
    return this.events.find((e) => e.type === 'CUSTOM' && e.name === name)?.value;
  }
}

/**
 * shape takes what is different on every thread out of messages: ids become their number
 * in order of appearance, so that who refers to whom stays.
 */
export function shape(messages) {
  const numbers = new Map();
  const number = (id) => {
    if (!numbers.has(id)) numbers.set(id, `#${numbers.size}`);
    return numbers.get(id);
  };
  return messages.map(({ id, role, content, toolCalls, toolCallId, activityType }) => ({
    role,
    content,
    ...(activityType && { activityType }),
    ...(toolCalls && { calls: toolCalls.map((c) => ({ id: number(c.id), name: c.function.name, arguments: c.function.arguments })) }),
    ...(toolCallId && { answers: number(toolCallId) }),
    id: number(id),
  }));
}

/** finishedWell checks a Run's last event: success, in the words of the client's version. */
export function finishedWell(run) {
  assert.equal(run.last.type, 'RUN_FINISHED', JSON.stringify(run.last));
  assert.ok([undefined, 'success'].includes(run.last.outcome?.type), JSON.stringify(run.last));
}

/** asked checks that a Run ended with n open questions, and gives them. */
export function asked(run, n) {
  assert.equal(run.last.outcome?.type, 'interrupt', JSON.stringify(run.last));
  assert.equal(run.last.outcome.interrupts.length, n);
  return run.last.outcome.interrupts;
}
