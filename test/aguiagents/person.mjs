// A person with one of the official clients, at an agent's own endpoint or at Aqueduct: what is said, what came of it, and what
// the model saw of it.

import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { HttpAgent } from 'agui1';

export const showMap = { name: 'show_map', description: 'Shows a map', parameters: { type: 'object', properties: { lat: { type: 'number' } } } };

// The clients report by a warning that a stream is not what the protocol promises.
const speaking = new AsyncLocalStorage();
for (const level of ['warn', 'error']) {
  const print = console[level];
  console[level] = (...words) => {
    const person = speaking.getStore();
    if (person) person.complaints.push(words.map(String).join(' '));
    else print(...words);
  };
}

/** How agents refuse a run while they have not noticed that the one before it was stopped. */
const busy = /THREAD_BUSY|Thread is already running/;

/** The calls of a message that are cards of this server's questions. */
const isCard = (call) => ['request_permission', 'request_input'].includes(call.function.name);

export class Person {
  /**
   * url is where the client posts, talk names the conversation to the model, connect is where a new client joins the thread.
   * middleware: makes what stands between the client and the agent;
   * page: how the framework's own page answers what is no interrupt (resumesById, answersCalls: NAME), and forgetsThoughts;
   * copilotkit: questions are answered as CopilotKit's useInterrupt does it.
   */
  constructor({ url, connect, talk, Client = HttpAgent, tools = [showMap], copilotkit = false, middleware, page = {} }) {
    Object.assign(this, { url, connect, talk, Client, tools, copilotkit, middleware, page, threadId: randomUUID(), prompts: [], complaints: [], words: [], busy: 0 });
    this.agent = this.client();
  }

  client(more) {
    const agent = new this.Client({ url: this.url, threadId: this.threadId, ...more });
    if (this.middleware) agent.use(this.middleware());
    return agent;
  }

  /** run has the client send what it has; it returns the events. */
  async run(parameters = {}, watch) {
    const events = [];
    const { agent } = this;
    this.runId = parameters.runId ?? `r${randomUUID()}`;
    let failure;
    await speaking.run(this, () => agent.runAgent({ runId: this.runId, tools: this.tools, ...parameters }, {
      onEvent: ({ event }) => {
        events.push(event);
        watch?.(event, agent);
      },
    })).catch((error) => { failure = error.message; });
    const failed = events.find((e) => e.type === 'RUN_ERROR' && e.code !== 'abort');
    failure ??= failed && `${failed.code ?? ''} ${failed.message}`;
    if (!failure && !watch && events.at(-1)?.type !== 'RUN_FINISHED') failure = `ends with ${events.at(-1)?.type}`;
    this.interruptEvent = events.find((e) => e.type === 'CUSTOM' && e.name === 'on_interrupt')?.value;
    const asked = this.interruptEvent ?? events.find((e) => e.outcome?.type === 'interrupt');
    if (busy.test(failure) && this.busy < 50) {
      this.busy++;
      await setTimeout(100);
      return this.run(parameters, watch);
    }
    this.prompts.push(failure ? `refused: ${failure}` : asked ? 'asks' : 'answered');
    return events;
  }

  /** say sends a message of the user. */
  say(content, parameters, watch) {
    this.words.push(content);
    this.agent.addMessage({ id: `u${this.words.length}-${this.talk}`, role: 'user', content: `${content} ~${this.talk}` });
    return this.run(parameters, watch);
  }

  /** open are the calls of the page's tools without a result. */
  get open() {
    const done = new Set(this.agent.messages.filter((m) => m.role === 'tool').map((m) => m.toolCallId));
    return this.agent.messages.flatMap((m) => m.toolCalls ?? []).filter((c) => c.function.name === 'show_map' && !done.has(c.id));
  }

  /** shows has the page answer its open calls, in one request. */
  shows() {
    for (const call of this.open) {
      this.agent.addMessage({ id: `t${randomUUID()}`, role: 'tool', toolCallId: call.id, content: JSON.stringify({ shown: JSON.parse(call.function.arguments).lat }) });
    }
    return this.run();
  }

  /**
   * decides answers what is asked: by resume where the client knows of an interrupt, else by command.resume. CopilotKit's
   * useInterrupt does it in the run that asked, and writes what was decided into the conversation.
   */
  decides(payload) {
    const open = [...this.agent.pendingInterrupts ?? []];
    for (const { toolCallId } of this.copilotkit ? open : []) {
      if (toolCallId) this.agent.addMessage({ id: `decided-${randomUUID()}`, role: 'tool', toolCallId, content: JSON.stringify(payload) });
    }
    const asked = this.agent.messages.flatMap((m) => m.toolCalls ?? []).findLast((c) => c.function.name === this.page.answersCalls);
    if (asked && !open.length) {
      this.agent.addMessage({ id: `a${randomUUID()}`, role: 'tool', toolCallId: asked.id, content: JSON.stringify({ accepted: payload.approved }) });
      return this.run();
    }
    const id = this.page.resumesById && this.interruptEvent?.id;
    if (id && !open.length) open.push({ id });
    return this.run({
      ...(this.copilotkit && { runId: this.runId }),
      ...(open.length
        ? { resume: open.map(({ id }) => ({ interruptId: id, status: 'resolved', payload })) }
        : { forwardedProps: { command: { resume: payload, interruptEvent: this.interruptEvent } } }),
    });
  }

  /** back takes the messages behind the last user message from the client's list, and with whole that message too. */
  back(whole) {
    const { messages } = this.agent;
    this.agent.setMessages(messages.slice(0, messages.findLastIndex((m) => m.role === 'user') + (whole ? 0 : 1)));
  }

  /** stops has the person stop a long answer while it comes. */
  stops() {
    let pieces = 0;
    return this.say('slow', {}, (event, agent) => {
      if (event.type === 'TEXT_MESSAGE_CONTENT' && ++pieces === 3) agent.abortRun();
    });
  }

  /** reloads goes on with a new client: one that joined at Aqueduct, or that has what the old one had. */
  async reloads() {
    const old = this.agent;
    if (!this.connect) {
      this.agent = this.client({ initialMessages: old.messages, initialState: old.state });
      return;
    }
    this.agent = this.client({ url: this.connect });
    await speaking.run(this, () => this.agent.runAgent({ runId: `r${randomUUID()}`, tools: this.tools }));
    const { messages, state } = this.agent;
    this.agent = this.client({ initialMessages: messages, initialState: state });
  }

  /** transcript is the conversation as the client has it, without ids and without cards. */
  get transcript() {
    const cards = new Set(this.agent.messages.flatMap((m) => m.toolCalls ?? []).filter(isCard).map((c) => c.id));
    const calls = this.agent.messages.flatMap((m) => m.toolCalls ?? []).filter((c) => !isCard(c)).map((c) => c.id);
    // What was decided and the page wrote down is the result of a card here, of the call there.
    return this.told(this.agent.messages).filter((m) => !m.id.startsWith('decided-')).flatMap(({ role, content, toolCalls = [], toolCallId, activityType, error }) => {
      const shown = toolCalls.filter((c) => !isCard(c));
      if (cards.has(toolCallId) || (toolCalls.length > shown.length && shown.length === 0 && !content)) return [];
      return [{
        role,
        content: typeof content === 'string' ? plain(content) : content ?? '',
        ...(shown.length && { calls: shown.map((c) => `${calls.indexOf(c.id)} ${c.function.name} ${c.function.arguments}`) }),
        ...(toolCallId && { answers: calls.indexOf(toolCallId) }),
        ...(activityType && { activityType }),
        ...(error && { error }),
      }];
    });
  }

  /**
   * told are messages with the thoughts before all else, and results under their calls: where a client puts what only a snapshot
   * brings, or leaves out, is its own affair.
   */
  told(messages) {
    const thoughts = messages.filter((m) => m.role === 'reasoning');
    const called = new Set(messages.flatMap((m) => m.toolCalls ?? []).map((c) => c.id));
    const rest = messages.filter((m) => m.role !== 'reasoning' && !called.has(m.toolCallId));
    return [
      ...this.page.forgetsThoughts ? [] : thoughts,
      ...rest.flatMap((m) => [m, ...messages.filter((r) => (m.toolCalls ?? []).some((c) => c.id === r.toolCallId))]),
    ];
  }

  /** state is the shared state as the client has it, without the transcript that LangGraph keeps in it. */
  get state() {
    const { messages, ...state } = this.agent.state ?? {};
    return JSON.parse(JSON.stringify(state).replaceAll(uuid, 'thread'));
  }

  /**
   * sent is what the agent of played.mjs was sent: the messages, with the ids that it gave itself, the answers, and the rest. Of two
   * results of one call the newest counts, and Aqueduct sends no other. An answer to on_interrupt goes out in both of its forms there.
   */
  async sent() {
    const inputs = await (await fetch(`${process.env.AGENT_URL}/seen?talk=${this.talk}`)).json();
    return inputs.map(({ messages, resume = [], tools, context, forwardedProps }) => ({
      messages: this.told(newest(messages)).map(({ id, role, content, toolCalls = [], toolCallId }) => [
        role, ['assistant', 'reasoning'].includes(role) ? id : '', typeof content === 'string' ? plain(content) : content ?? '',
        ...toolCalls.map((c) => [c.id, c.function.name, c.function.arguments]), toolCallId ?? '',
      ]),
      answers: resume.map(({ interruptId, status, payload }) => [interruptId.replaceAll(uuid, 'thread'), status, payload]),
      tools: tools.map((t) => t.name), context, ...(!resume.length && { command: forwardedProps?.command?.resume }),
    }));
  }

  /** seen is what the model saw, request by request. */
  async seen() {
    const requests = await (await fetch(`${new URL(process.env.MODEL_URL).origin}/seen?talk=${this.talk}`)).json() ?? [];
    const own = []; // ids of calls that a framework made up
    const id = (call) => {
      if (call.startsWith('call_')) return call;
      if (!own.includes(call)) own.push(call);
      return `own ${own.indexOf(call)}`;
    };
    return requests.map(({ messages, refused }) => ({
      messages: messages.map((m) => ({
        ...m,
        ...(m.tool_call_id && { tool_call_id: id(m.tool_call_id) }),
        content: typeof m.content === 'string' ? plain(m.content) : m.content ?? '',
        ...(m.tool_calls && { tool_calls: m.tool_calls.map((c) => [id(c.id), c.function.name, c.function.arguments]) }),
      })),
      ...(refused && { refused }),
    }));
  }
}

/** Messages without the results that a later one of the same call replaces. */
const newest = (messages) => messages.filter((m, i) => m.role !== 'tool' || !messages.slice(i + 1).some((later) => later.toolCallId === m.toolCallId));

/** The names of threads, which are others for an agent behind Aqueduct. */
const uuid = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

/** A text without the name of its conversation, and a text that was stopped without what depends on when. */
export const plain = (content) => content.replace(/\s*~[\w-]+/g, '').replace(/^(more ?)+$/, 'more …');
