// run.tool: tools that Aqueduct runs, or asks people about, as if they were functions.

import { Keys } from "./digest.js";
import { ToolFailed } from "./errors.js";
import { once, parsed, PASSING, Pauses, refusal, type Link, type Request, type Whole } from "./wire.js";

/** How long one :wait may take; the server answers sooner when the call has ended. */
const WAIT = 20_000;
/** What a request may take longer than what it waits for. */
const MARGIN = 60_000;

export interface ToolOptions {
  /** The id of the toolCall frame that shows this call. */
  callId?: string;
  /** The same key in the same run is the same call, which runs once. */
  idempotencyKey?: string;
  /** How long the tool may run. The time that people take to decide does not count. */
  timeoutMs?: number;
}

export class Tools {
  readonly #keys = new Keys();

  constructor(
    private readonly link: Link,
    private readonly runId: string,
    private readonly called: (key: string) => void,
  ) {}

  /** Calls a tool and waits for its result, however long people take. Throws ToolFailed when there is none. */
  async invoke(name: string, args: unknown = {}, options: ToolOptions = {}): Promise<any> {
    const { callId, timeoutMs } = options;
    const key = options.idempotencyKey ?? this.#keys.next([name, args]);
    this.called(key);
    const body = { run_id: this.runId, args, idempotency_key: key, call_id: callId, timeout_ms: timeoutMs };
    let reply = await this.#post(`/v1/tools/${encodeURIComponent(name)}:invoke`, body, (timeoutMs ?? WAIT) + MARGIN);
    let id = "";
    const pauses = new Pauses(this.link);
    for (;;) {
      const answer = parsed(reply.raw);
      if (answer.status === "succeeded") return answer.result;
      if (answer.error) throw new ToolFailed(String(answer.error.code), String(answer.error.message));
      if (reply.status >= 300) throw new ToolFailed(...refusal(reply.status, answer));
      id = String(answer.tool_call_id ?? id);
      if (answer.status !== "pending" || !id) throw new ToolFailed("bad_answer", "Aqueduct's answer to the tool call could not be read.");
      const before = Date.now();
      reply = await this.#post(`/v1/tool_calls/${encodeURIComponent(id)}:wait?timeout_ms=${WAIT}`, {}, WAIT + MARGIN);
      // A server that does not wait is not asked in a tight loop.
      if (Date.now() - before > 1_000) pauses.progress();
      else if (parsed(reply.raw).status === "pending") await pauses.next();
    }
  }

  /** Sends until there is an answer. The key in the body keeps a repeat from counting twice. */
  async #post(path: string, body: object, timeoutMs: number): Promise<Whole> {
    const request: Request = { method: "POST", path, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const pauses = new Pauses(this.link);
    for (;;) {
      const reply = await once(this.link, request, timeoutMs);
      if (reply.status !== 0 && !PASSING.has(reply.status)) return reply;
      if (!(await pauses.next())) throw new ToolFailed(...refusal(0, {}));
    }
  }
}
