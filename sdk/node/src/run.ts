// One call of an agent: what Aqueduct sent, and what the agent can do about it.

import type { IncomingHttpHeaders } from "node:http";
import { Agents } from "./agents.js";
import type { Answer } from "./ask.js";
import { Contexts } from "./context.js";
import { ContextFailed, Gone } from "./errors.js";
import { Replay } from "./replay.js";
import { Tools } from "./tools.js";
import { once, parsed, refusal, type Link } from "./wire.js";

/** How long reading a page of the transcript may take. */
const TRANSCRIPT_TIMEOUT = 60_000;

export interface Message {
  id?: string;
  role?: string;
  content?: unknown;
  [member: string]: unknown;
}

export interface TranscriptQuery {
  /** 50 by default, at most 200. */
  limit?: number;
  /** The `before` of a page leads to the one before it. */
  before?: string;
  form?: "agui" | "openai";
}

export interface Page {
  /** The newest one is the last. */
  messages: Message[];
  hasMore: boolean;
  before?: string;
}

export class Run {
  /** The Turn: the same in every call of it. */
  readonly id: string;
  /** The client's own name of the conversation, which another user may use too. */
  readonly sessionId: string;
  /** Aqueduct's name of the conversation, which no other has. */
  readonly aqueductSessionId: string;
  readonly agentId: string;
  readonly userId: string;
  readonly messages: Message[];
  readonly input: Message;
  readonly clientTools: Record<string, any>[];
  readonly clientContext: Record<string, any>[];
  readonly forwardedProps: any;
  /** The thread's shared state. */
  readonly state: any;
  /** This call brings answers to what an earlier one asked. */
  readonly resumed: boolean;
  readonly usage: Record<string, number> = {};
  readonly tool: Tools;
  readonly agents: Agents;
  readonly context: Contexts;
  /** For any client of OpenAI's API: new OpenAI(run.llm). */
  readonly llm: { baseURL: string; apiKey: string };
  readonly replay: Replay;
  readonly #link: Link;

  /** signal is aborted when nobody reads any more. */
  constructor(
    headers: IncomingHttpHeaders,
    body: Record<string, any>,
    readonly signal: AbortSignal,
  ) {
    const header = (name: string) => String(headers[name] ?? "");
    this.id = header("x-run-id") || String(body.run_id ?? "");
    this.sessionId = String(body.session_id ?? "");
    this.aqueductSessionId = header("x-aqueduct-session-id");
    this.agentId = String(body.agent_id ?? "");
    this.userId = String(body.context?.user_id ?? "");
    this.messages = objects(body.messages);
    this.input = body.input_message ?? {};
    this.clientTools = objects(body.tools);
    this.clientContext = objects(body.client_context);
    this.forwardedProps = body.forwarded_props;
    this.state = body.state;
    const resume = objects(body.resume);
    this.resumed = resume.length > 0;
    this.replay = new Replay(resume);
    const base = header("x-aqueduct-base-url").replace(/\/+$/, "");
    this.#link = { base, token: header("x-aqueduct-run-token"), traceparent: header("traceparent"), signal };
    this.llm = { baseURL: base + "/v1", apiKey: this.#link.token };
    this.tool = new Tools(this.#link, this.id, (key) => this.replay.called(key));
    this.agents = new Agents(this.#link, this.id);
    this.context = new Contexts(this.#link);
  }

  /** What the person wrote. A call that brings answers has the same prompt as the first. */
  get prompt(): string {
    const asked = this.input.role === "user" ? this.input : this.messages.findLast((m) => m.role === "user");
    return words(asked ?? this.input);
  }

  /** The answer to the question that was asked under this id: the two-step form of asking. */
  answer(id: string): Answer | undefined {
    return this.replay.answer(id);
  }

  /** Adds to what `done` says was used: input_tokens, output_tokens, total_tokens. */
  used(tokens: Record<string, number>): void {
    for (const [name, n] of Object.entries(tokens)) this.usage[name] = (this.usage[name] ?? 0) + n;
  }

  /** A page of the conversation as a model would be given it (docs/api.md, "Transcript"). */
  async transcript({ limit, before, form }: TranscriptQuery = {}): Promise<Page> {
    const query = new URLSearchParams();
    if (limit !== undefined) query.set("limit", String(limit));
    if (before !== undefined) query.set("before", before);
    if (form !== undefined) query.set("format", form);
    const path = `/v1/sessions/${encodeURIComponent(this.aqueductSessionId)}/messages?${query}`;
    const reply = await once(this.#link, { method: "GET", path }, TRANSCRIPT_TIMEOUT);
    const page = parsed(reply.raw);
    if (reply.status !== 200) throw new ContextFailed(...refusal(reply.status, page));
    return { messages: page.messages, hasMore: page.has_more, before: page.before };
  }

  /** Waits for what is given, but not when nobody reads any more. */
  async unlessGone<T>(wait: Promise<T>): Promise<T> {
    wait.catch(() => undefined); // it may fail when no one waits any more
    if (this.signal.aborted) throw new Gone();
    let left = () => {};
    const gone = new Promise<never>((_, reject) => {
      left = () => reject(new Gone());
      this.signal.addEventListener("abort", left);
    });
    try {
      return await Promise.race([wait, gone]);
    } finally {
      this.signal.removeEventListener("abort", left);
    }
  }
}

/** A message's text; of a list of parts those that are text. */
function words(message: Message): string {
  if (typeof message.content === "string") return message.content;
  return objects(message.content)
    .filter((part) => part.type === "text")
    .map((part) => String(part.text ?? ""))
    .join("");
}

function objects(value: unknown): Record<string, any>[] {
  return Array.isArray(value) ? value.filter((v) => v !== null && typeof v === "object") : [];
}
