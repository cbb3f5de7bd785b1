// run.context: what an agent wants to find again, kept by Aqueduct under a key (docs/context.md).

import { setTimeout as sleep } from "node:timers/promises";
import { ContextFailed, ContextMoved } from "./errors.js";
import { once, parsed, PASSING, refusal, type Link, type Request, type Whole } from "./wire.js";

/** How long one request may take: 16 MiB have to get there. */
const TIMEOUT = 120_000;
/** How often a request is made that the server could not take at the moment, and the first pause between two. */
const TRIES = 4;
const PAUSE = 200;

/** An entry: without content after put(), with it after get(). */
export interface Entry {
  key: string;
  version: number;
  contentType: string;
  content?: Uint8Array;
  /** The content as it was put: JSON, a string, or bytes. */
  value?: any;
}

export interface PutOptions {
  /** The entry to write; without one a key is made. */
  key?: string;
  /** The version that is replaced; another one throws ContextMoved. */
  ifVersion?: number;
  contentType?: string;
  /** Of a new entry: who may use it, and when it ends. */
  owner?: "session" | "run" | "user" | "agent";
  /** Seconds until it expires; 0 is never. Left out, it is what it was, or never. */
  ttlSeconds?: number;
}

export class Contexts {
  constructor(private readonly link: Link) {}

  /** Writes an entry: bytes, a string, or anything that JSON can hold. */
  async put(content: unknown, options: PutOptions = {}): Promise<Entry> {
    const [kind, raw] = encoded(content, options.contentType);
    const about = { owner_type: options.key === undefined ? (options.owner ?? "session") : undefined, ttl_seconds: options.ttlSeconds };
    if (options.key === undefined && kind === "application/json") {
      const reply = await this.#send("POST", "", { kind, raw: `{"content":${raw as string},${JSON.stringify(about).slice(1)}` });
      return entry(parsed(reply.raw));
    }
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(about)) if (value !== undefined) query.set(name, String(value));
    const [method, path] = options.key === undefined ? ["POST", ""] : ["PUT", "/" + encodeURIComponent(options.key)];
    const reply = await this.#send(method, `${path}?${query}`, { kind, raw, ifVersion: options.ifVersion });
    return entry(parsed(reply.raw));
  }

  /** Reads an entry. One that is not there, or not for this run, throws ContextFailed with the code not_found. */
  async get(key: string): Promise<Entry> {
    const { headers, raw } = await this.#send("GET", "/" + encodeURIComponent(key), {});
    const contentType = headers.get("content-type") ?? "";
    const version = Number((headers.get("etag") ?? "0").replaceAll('"', ""));
    return { key, version, contentType, content: raw, value: decoded(raw, contentType) };
  }

  async delete(key: string, options: { ifVersion?: number } = {}): Promise<void> {
    await this.#send("DELETE", "/" + encodeURIComponent(key), options);
  }

  /**
   * One request, again while the server is away. Of a connection that breaks it is not known whether the request counted,
   * so only a read is done again then.
   */
  async #send(method: string, path: string, what: { kind?: string; raw?: string | Uint8Array; ifVersion?: number }): Promise<Whole> {
    const headers: Record<string, string> = {};
    if (what.kind) headers["content-type"] = what.kind;
    if (what.ifVersion !== undefined) headers["if-match"] = `"${what.ifVersion}"`;
    const request: Request = { method, path: "/v1/context" + path, headers, body: what.raw };
    for (let n = 1; ; n++) {
      const reply = await once(this.link, request, TIMEOUT);
      if (reply.status >= 200 && reply.status < 300) return reply;
      if (n < TRIES && (PASSING.has(reply.status) || (reply.status === 0 && method === "GET"))) {
        await sleep(PAUSE * n);
        continue;
      }
      const [code, message] = refusal(reply.status, parsed(reply.raw));
      throw code === "version_conflict" ? new ContextMoved(code, message) : new ContextFailed(code, message);
    }
  }
}

function entry(body: Record<string, any>): Entry {
  return { key: body.context_key, version: body.version, contentType: body.content_type };
}

function encoded(content: unknown, contentType?: string): [kind: string, raw: string | Uint8Array] {
  if (content instanceof Uint8Array) return [contentType ?? "application/octet-stream", content];
  if (typeof content === "string") return [contentType ?? "text/plain; charset=utf-8", content];
  return [contentType ?? "application/json", JSON.stringify(content)];
}

function decoded(raw: Uint8Array, contentType: string): unknown {
  const kind = contentType.split(";")[0]!.trim();
  if (kind === "application/json") return JSON.parse(new TextDecoder().decode(raw));
  return kind.startsWith("text/") ? new TextDecoder().decode(raw) : raw;
}
