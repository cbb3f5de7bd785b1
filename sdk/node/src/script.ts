// What an agent's function yields, turned into frames.

import { Answer, Ask } from "./ask.js";
import { AqueductError } from "./errors.js";
import { done, failure, Frame, frames } from "./frames.js";
import type { Run } from "./run.js";

/** What a function may yield; undefined and null are nothing. */
export type Item = string | Frame | Ask | Ask[] | undefined | null;

/**
 * An agent's function. What it returns is the run's result. `yield` gives the Answer of a question, an Answer[] of a list of
 * them, in the same order, and else undefined: TypeScript has one type for every yield of a function, so it is `any`.
 */
export type AnswerFunction = (run: Run) => AsyncGenerator<Item, unknown, any>;

/** One call of the function: its frames go to `write`, one after the other, until it ends or nobody reads. */
export async function play(run: Run, answer: AnswerFunction, write: (out: Frame[]) => Promise<void>): Promise<void> {
  const script = new Script(run);
  let steps: AsyncGenerator<Item, unknown, any> | undefined;
  try {
    steps = answer(run);
    while (!script.ended) {
      const step = await run.unlessGone(steps.next(script.reply));
      await write(step.done ? script.end(step.value) : script.take(step.value));
    }
  } catch (problem) {
    if (!run.signal.aborted) await write(script.fail(problem));
  }
  // What the function has under `finally` runs here. Of one that still waits for something else it runs after that.
  steps?.return(undefined).catch((problem: unknown) => console.error(`run ${run.id}: the agent failed when it was closed:`, problem));
}

class Script {
  ended = false;
  /** What the yield that was just taken gives. */
  reply: Answer | Answer[] | undefined;

  constructor(private readonly run: Run) {}

  take(item: Item): Frame[] {
    this.reply = undefined;
    if (item === undefined || item === null || item === "") return [];
    if (typeof item === "string") return this.run.replay.passOn(frames.text(item));
    if (item instanceof Frame) return this.run.replay.passOn(item);
    if (item instanceof Ask) return this.#ask([item], true);
    if (Array.isArray(item) && item.length > 0 && item.every((a) => a instanceof Ask)) return this.#ask(item, false);
    throw new TypeError(`an agent cannot yield ${typeof item}`);
  }

  end(result: unknown): Frame[] {
    this.ended = true;
    return [...this.run.replay.letGo(), done(this.run.usage, [], result)];
  }

  /** The end of a function that threw. What is not meant for people stays here. */
  fail(problem: unknown): Frame[] {
    this.ended = true;
    if (problem instanceof AqueductError) return [failure(problem.code, problem.reason)];
    console.error(`run ${this.run.id}: the agent failed:`, problem);
    return [failure("agent_error", "The agent failed.")];
  }

  /** Gives the answers. When one is missing, all that are missing are asked for and the call ends. */
  #ask(asks: Ask[], single: boolean): Frame[] {
    const { replay, usage } = this.run;
    const keys = asks.map((a) => replay.key(a));
    const answers = keys.map((key) => replay.answer(key));
    const missing = asks.flatMap((a, i) => (answers[i] ? [] : [a.frame(replay.id(keys[i]!))]));
    if (missing.length === 0) {
      this.reply = single ? answers[0] : (answers as Answer[]);
      return [];
    }
    this.ended = true;
    return [...replay.letGo(), ...missing, done(usage, missing.map((frame) => frame.data.id as string))];
  }
}
