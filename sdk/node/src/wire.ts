// Requests to Aqueduct, with the token of one run.

import { setTimeout as sleep } from "node:timers/promises";
import { Gone } from "./errors.js";

/** How long a server may be unreachable, or answer with a status of PASSING, before that is an error. */
export const PATIENCE = 60_000;
/** Statuses that mean nothing but "later". */
export const PASSING = new Set([429, 502, 503, 504]);

/** Where Aqueduct is, the key to it, and who waits. */
export interface Link {
  base: string;
  token: string;
  traceparent: string;
  signal: AbortSignal;
}

export interface Request {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
}

/** An answer that was read whole. Status 0 is a connection that broke. */
export interface Whole {
  status: number;
  headers: Headers;
  raw: Uint8Array;
}

/** Sends a request; undefined means that no answer began. */
export async function send(link: Link, request: Request, timeoutMs?: number): Promise<Response | undefined> {
  if (!/^https?:\/\//.test(link.base)) throw new Error("no address of Aqueduct: it sends it as x-aqueduct-base-url");
  const headers: Record<string, string> = { authorization: `Bearer ${link.token}`, ...request.headers };
  if (link.traceparent) headers.traceparent = link.traceparent;
  const signal = timeoutMs === undefined ? link.signal : AbortSignal.any([link.signal, AbortSignal.timeout(timeoutMs)]);
  try {
    return await fetch(link.base + request.path, { method: request.method, headers, body: request.body, signal, redirect: "error" });
  } catch {
    if (link.signal.aborted) throw new Gone();
    return undefined;
  }
}

/** One request and its whole answer. */
export async function once(link: Link, request: Request, timeoutMs: number): Promise<Whole> {
  const response = await send(link, request, timeoutMs);
  try {
    if (response) return { status: response.status, headers: response.headers, raw: new Uint8Array(await response.arrayBuffer()) };
  } catch {
    if (link.signal.aborted) throw new Gone();
  }
  return { status: 0, headers: new Headers(), raw: new Uint8Array() };
}

/** Pauses between tries, which grow, until PATIENCE has passed since the last progress. */
export class Pauses {
  #pause = 200;
  #until = Date.now() + PATIENCE;

  constructor(private readonly link: Link) {}

  progress(): void {
    this.#pause = 200;
    this.#until = Date.now() + PATIENCE;
  }

  /** Waits for the next try; false when there should be none. */
  async next(): Promise<boolean> {
    if (Date.now() + this.#pause > this.#until) return false;
    await sleep(this.#pause, undefined, { signal: this.link.signal }).catch(() => {
      throw new Gone();
    });
    this.#pause = Math.min(5_000, this.#pause * 2);
    return true;
  }
}

/** A body as JSON; of anything else an empty object. */
export function parsed(raw: Uint8Array | string): Record<string, any> {
  try {
    const value: unknown = JSON.parse(typeof raw === "string" ? raw : new TextDecoder().decode(raw));
    return value !== null && typeof value === "object" ? (value as Record<string, any>) : {};
  } catch {
    return {};
  }
}

/** Code and message of an answer that is no success. */
export function refusal(status: number, body: Record<string, any>): [code: string, message: string] {
  if (status === 0) return ["unreachable", "Aqueduct could not be reached, so what became of the call is not known."];
  return [String(body.code ?? `http_${status}`), String(body.detail ?? body.title ?? `Aqueduct answered HTTP ${status}.`)];
}

export interface Event {
  id: string;
  name: string;
  data: string;
}

/** The events of a stream, until it ends or breaks. */
export async function* events(response: Response, onBytes?: () => void): AsyncGenerator<Event> {
  const decoder = new TextDecoder();
  let rest = "";
  let event: Event = { id: "", name: "", data: "" };
  const reader = response.body!.getReader();
  try {
    for (;;) {
      const chunk = await reader.read().catch(() => ({ done: true, value: undefined }) as const);
      if (chunk.done) return;
      onBytes?.();
      const lines = (rest + decoder.decode(chunk.value, { stream: true })).split("\n");
      rest = lines.pop()!;
      for (const line of lines.map((l) => l.replace(/\r$/, ""))) {
        if (line === "") {
          if (event.name || event.data) yield event;
          event = { id: "", name: "", data: "" };
        } else if (line.startsWith("id:")) event.id = line.slice(3).trim();
        else if (line.startsWith("event:")) event.name = line.slice(6).trim();
        else if (line.startsWith("data:")) event.data += line.slice(5).trimStart();
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it may be broken already
  }
}
