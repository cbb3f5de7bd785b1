// An agent behind `POST /invoke` and `GET /health`.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Gone } from "./errors.js";
import { encode, type Frame } from "./frames.js";
import { Run } from "./run.js";
import { play, type AnswerFunction } from "./script.js";

/** How long a request may take to arrive. */
const PATIENCE = 30_000;
/** How long a caller may take nothing of what is sent. Aqueduct pauses while its database does. */
const WRITE_PATIENCE = 300_000;

export interface AgentOptions {
  /** Most bytes of a request: 16 MiB. */
  maxBody?: number;
  /** Answers at a time; more are refused with 503: 256. */
  maxCalls?: number;
  /** Milliseconds of silence after which a comment says that the agent is alive: 15 000. */
  heartbeatMs?: number;
}

/** An agent that listens. */
export interface Serving {
  url: string;
  /** Takes no more calls. Those under way have drainMs (10 000) to end, and are cut then. */
  close(drainMs?: number): Promise<void>;
}

/** An agent that is made of one function. */
export function agent(answer: AnswerFunction, options: AgentOptions = {}): Agent {
  return new Agent(answer, options);
}

/** A request that is not taken. */
class Refused extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }
}

export class Agent {
  readonly #options: Required<AgentOptions>;
  #calls = 0;

  constructor(
    private readonly answer: AnswerFunction,
    options: AgentOptions = {},
  ) {
    this.#options = { maxBody: 16 << 20, maxCalls: 256, heartbeatMs: 15_000, ...options };
  }

  /** Listens, on loopback unless host is another: who reaches an agent can pretend to be Aqueduct. */
  async listen({ port = 8070, host = "127.0.0.1" } = {}): Promise<Serving> {
    const server = createServer({ requestTimeout: PATIENCE }, (req, res) => void this.#handle(req, res));
    server.listen(port, host);
    await once(server, "listening");
    const { port: bound } = server.address() as AddressInfo;
    return {
      url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
      close: async (drainMs = 10_000) => {
        const closed = once(server, "close");
        server.close();
        const cut = setTimeout(() => server.closeAllConnections(), drainMs);
        await closed;
        clearTimeout(cut);
      },
    };
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const path = (req.url ?? "").split("?")[0];
    if (req.method === "GET" && path === "/health") return say(res, 200, { status: "ok" });
    if (req.method !== "POST" || path !== "/invoke") return say(res, 404, { detail: "not found" });
    if (this.#calls >= this.#options.maxCalls) return say(res, 503, { detail: "too many answers are under way" });
    this.#calls++;
    try {
      await this.#stream(res, req.headers, await read(req, this.#options.maxBody));
    } catch (problem) {
      if (problem instanceof Refused) say(res, problem.status, { detail: problem.message });
      else res.destroy(); // the caller left
    } finally {
      this.#calls--;
    }
  }

  /** The answer: frames until the end, or until nobody reads any more. */
  async #stream(res: ServerResponse, headers: IncomingMessage["headers"], body: Record<string, any>): Promise<void> {
    const gone = new AbortController();
    res.on("close", () => gone.abort());
    res.on("error", () => gone.abort());
    const run = new Run(headers, body, gone.signal);
    res.setTimeout(WRITE_PATIENCE, () => res.destroy());
    res.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache, no-transform", "x-aqueduct-resumable": "true", connection: "close" });
    res.flushHeaders(); // at once: a caller measures the first byte apart from the first frame
    const beat = setInterval(() => {
      if (!res.writableNeedDrain) res.write(": alive\n\n");
    }, this.#options.heartbeatMs);
    try {
      await play(run, this.answer, async (out: Frame[]) => {
        if (gone.signal.aborted) throw new Gone();
        const room = out.length === 0 || res.write(out.map(encode).join(""));
        beat.refresh();
        if (!room) await run.unlessGone(once(res, "drain", { signal: gone.signal }));
      });
    } finally {
      clearInterval(beat);
      res.end();
    }
  }
}

/**
 * The request's body: an object, in JSON, of bounded size. Aqueduct sends no Origin. Browsers do: a page that reaches an
 * agent by a name of its own (DNS rebinding) could answer the agent's questions in a person's stead.
 */
async function read(req: IncomingMessage, most: number): Promise<Record<string, any>> {
  if (req.headers.origin !== undefined) throw new Refused(403, "agents are not called by pages");
  if (req.headers["content-type"]?.split(";")[0]?.trim() !== "application/json") throw new Refused(415, "the body must be application/json");
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    size += (chunk as Buffer).length;
    if (size > most) throw new Refused(413, "the body is too large");
    chunks.push(chunk as Buffer);
  }
  let body: unknown;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new Refused(400, "the body is not JSON");
  }
  if (body === null || typeof body !== "object" || Array.isArray(body)) throw new Refused(400, "the body is not an object");
  return body as Record<string, any>;
}

/** A short answer. A refused body is not read, so the connection ends with it. */
function say(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { "content-type": "application/json", connection: "close" });
  res.end(JSON.stringify(body));
}
