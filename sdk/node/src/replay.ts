// How `const answer = yield ask.permission(…)` waits without holding anything.
//
// An agent that asks ends its answer, and nothing of it stays in memory. When the answer is there Aqueduct calls again,
// and the function runs again from its top: a question that was answered gives its answer at once, and what is yielded
// before the newest answer is taken is not sent, because it was sent before. `resume` names the newest answers only;
// earlier ones of the run travel in the id of the next question, which goes to Aqueduct and back and is never shown.
//
// A call may also be lost while a tool waits for a person, because Aqueduct was restarted. Then `resume` names that tool call by
// its key, and what is yielded before the function makes that call is not sent. Answers that the lost call had are `repeated`.

import { deflateSync, inflateSync } from "node:zlib";
import { Answer, type Ask } from "./ask.js";
import type { Frame } from "./frames.js";

/** Most bytes of earlier answers in an id; a run that asks so much should keep its own notes. */
const MAX_CARRIED = 64 << 10;

export class Replay {
  readonly #fresh = new Map<string, Answer>();
  readonly #earlier = new Map<string, Answer>();
  readonly #asked = new Map<string, number>();
  #held: Frame[] = [];
  readonly #calls = new Set<string>(); // keys of the tool calls that waited when an earlier call of the agent was lost
  #waiting: boolean; // for the newest answer to be taken, or for one of #calls to be made

  constructor(resume: Record<string, unknown>[]) {
    for (const entry of resume) {
      const [key, earlier] = unpack(String(entry.id ?? ""));
      for (const answer of earlier) this.#earlier.set(answer.id, answer);
      const answers = entry.repeated === true ? this.#earlier : this.#fresh;
      if (typeof entry.idempotency_key === "string") this.#calls.add(entry.idempotency_key);
      else answers.set(key, new Answer(key, String(entry.status ?? ""), entry.payload));
    }
    this.#waiting = this.#fresh.size + this.#calls.size > 0;
  }

  /** The function calls a tool under that key. */
  called(key: string): void {
    if (this.#calls.has(key)) this.#caughtUp();
  }

  /** The answer to the question of that key, if there is one. */
  answer(key: string): Answer | undefined {
    const fresh = this.#fresh.get(key);
    if (fresh) this.#caughtUp();
    return fresh ?? this.#earlier.get(key);
  }

  #caughtUp(): void {
    this.#waiting = false;
    this.#held = [];
  }

  /** Tells questions apart that are alike: the second one is another one. */
  key(ask: Ask): string {
    const n = (this.#asked.get(ask.key) ?? 0) + 1;
    this.#asked.set(ask.key, n);
    return n === 1 ? ask.key : `${ask.key}.${n}`;
  }

  /** The id to ask under. */
  id(key: string): string {
    const answers = [...new Map([...this.#earlier, ...this.#fresh]).values()];
    if (answers.length === 0) return key;
    const carried = deflateSync(JSON.stringify(answers.map((a) => [a.id, a.status, a.payload]))).toString("base64url");
    if (carried.length > MAX_CARRIED) throw new Error("the answers of this run are too large to be carried on");
    return `${key}~${carried}`;
  }

  /** What of a frame is to be sent now. */
  passOn(frame: Frame): Frame[] {
    if (!this.#waiting) return [frame];
    this.#held.push(frame);
    return [];
  }

  /** What was held back, for a function that took another way than before. */
  letGo(): Frame[] {
    const held = this.#held;
    this.#held = [];
    this.#waiting = false;
    return held;
  }
}

function unpack(id: string): [string, Answer[]] {
  const at = id.indexOf("~");
  if (at < 0) return [id, []];
  const raw = inflateSync(Buffer.from(id.slice(at + 1), "base64url"), { maxOutputLength: 64 * MAX_CARRIED });
  const answers = JSON.parse(raw.toString()) as [string, string, unknown][];
  return [id.slice(0, at), answers.map((a) => new Answer(...a))];
}
