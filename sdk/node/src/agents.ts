// run.agents: other agents, by their ids (docs/agents.md, "Agents that call agents").

import { Keys } from "./digest.js";
import { AgentFailed, Gone } from "./errors.js";
import { events, parsed, PASSING, Pauses, refusal, send, type Event, type Link } from "./wire.js";

export interface AgentState {
  runId: string;
  /** RUNNING, WAITING_APPROVAL, WAITING_TOOL; or what the agent calls it. */
  state: string;
  source?: string;
  detail?: unknown;
}

export interface AgentOptions {
  /** What the called agent has to know before the message. */
  messages?: { role: "user" | "assistant" | "system" | "developer"; content: unknown }[];
  /** Facts by name. */
  context?: Record<string, unknown>;
  /** The same key in the same run is the same call: its agent works once. */
  idempotencyKey?: string;
  onState?: (state: AgentState) => void;
}

export interface AgentReply {
  text: string;
  usage: Record<string, unknown>;
  runId: string;
}

export class Agents {
  readonly #keys = new Keys();

  constructor(
    private readonly link: Link,
    private readonly runId: string,
  ) {}

  /**
   * Calls an agent and waits for its end. What it asks is asked in the caller's own chat. Throws AgentFailed. A stream that
   * breaks is taken up where it broke.
   */
  async invoke(agentId: string, message: string, options: AgentOptions = {}): Promise<AgentReply> {
    const { messages, context, onState } = options;
    const body = JSON.stringify({
      run_id: this.runId,
      input_message: { role: "user", content: message },
      messages,
      context,
      idempotency_key: options.idempotencyKey ?? this.#keys.next([agentId, message, messages, context]),
    });
    const reply: AgentReply = { text: "", usage: {}, runId: "" };
    const pauses = new Pauses(this.link);
    let last = "";
    do {
      const headers: Record<string, string> = { "content-type": "application/json", accept: "text/event-stream" };
      if (last) headers["last-event-id"] = last;
      const response = await send(this.link, { method: "POST", path: `/v1/agents/${encodeURIComponent(agentId)}:invoke`, headers, body });
      if (response?.ok) {
        // Comments count too: a called agent may wait for a person for hours.
        for await (const event of events(response, () => pauses.progress())) {
          last = event.id || last;
          if (take(event, reply, onState)) return reply;
        }
      } else if (response && !PASSING.has(response.status)) {
        throw new AgentFailed(...refusal(response.status, parsed(await response.text().catch(() => ""))));
      }
      if (this.link.signal.aborted) throw new Gone();
    } while (await pauses.next());
    throw new AgentFailed(...refusal(0, {}));
  }
}

/** Takes one event; true at the end. */
function take(event: Event, reply: AgentReply, onState?: (state: AgentState) => void): boolean {
  const data = parsed(event.data);
  reply.runId = String(data.run_id ?? reply.runId);
  switch (event.name) {
    case "delta":
      reply.text += String(data.text ?? "");
      return false;
    case "state":
      onState?.({ runId: reply.runId, state: String(data.state), source: data.source, detail: data.detail });
      return false;
    case "done":
      reply.usage = data.usage ?? {};
      return true;
    case "error":
      throw new AgentFailed(String(data.code ?? "agent_error"), String(data.message ?? "The agent failed."));
    default:
      return false;
  }
}
