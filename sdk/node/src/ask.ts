// Questions to people and to the frontend. How `yield` can wait for days: replay.ts.

import { digest } from "./digest.js";
import { Frame } from "./frames.js";

/** A choice of a permission. Only its kind decides what it means. */
export interface Option {
  id: string;
  label: string;
  kind: "allow_once" | "allow_always" | "reject_once" | "reject_always";
}

export interface AskOptions {
  /** Seconds after which nobody can answer any more. */
  expiresIn?: number;
  /** Tells the question from others of the run; by default its content does. */
  id?: string;
}

/** A question that is not asked yet. */
export class Ask {
  constructor(
    readonly key: string,
    readonly name: string,
    readonly data: Record<string, unknown>,
  ) {}

  frame(id: string): Frame {
    return new Frame(this.name, { id, ...this.data });
  }
}

/** What came of a question. */
export class Answer {
  constructor(
    readonly id: string,
    readonly status: string,
    readonly payload: unknown,
  ) {}

  /** Nobody answered: declined, taken back, or too late. */
  get cancelled(): boolean {
    return this.status !== "resolved";
  }

  /** A permission was given. Everything else is no. */
  get approved(): boolean {
    return !this.cancelled && this.#member("approved") === true;
  }

  /** The id of the option that was chosen. */
  get option(): string | undefined {
    return this.#member("optionId") as string | undefined;
  }

  /** What a person entered; of a client tool what it gave: an object or a list where its text is JSON, else the text. */
  get value(): unknown {
    const names = this.payload !== null && typeof this.payload === "object" ? Object.keys(this.payload) : [];
    return names.length === 1 && names[0] === "content" ? structured(this.#member("content")) : this.payload;
  }

  #member(name: string): unknown {
    return (this.payload as Record<string, unknown> | null | undefined)?.[name];
  }
}

/** AG-UI has a tool's result as text, JSON in most cases. Text that only looks like a number or a word of JSON stays text. */
function structured(content: unknown): unknown {
  if (typeof content !== "string" || !/^\s*[{[]/.test(content)) return content;
  try {
    return JSON.parse(content);
  } catch {
    return content;
  }
}

const OPTIONS: Option[] = [
  { id: "once", label: "Allow once", kind: "allow_once" },
  { id: "always", label: "Always allow", kind: "allow_always" },
  { id: "no", label: "Reject", kind: "reject_once" },
];

export const ask = {
  /** May the agent do this? */
  permission(title: string, about: AskOptions & { tool?: string; args?: unknown; options?: Option[]; risk?: string } = {}): Ask {
    const { tool = "", args = {}, options = OPTIONS, risk = "medium" } = about;
    return make("ask", { kind: "permission", title, tool, args, options, risk }, about);
  },
  /** Asks a person for something; schema is a JSON Schema of the answer. */
  question(title: string, about: AskOptions & { schema?: object; name?: string; args?: unknown } = {}): Ask {
    const { schema, name = "ask_user", args = {} } = about;
    return make("ask", { kind: "input", title, name, args, response_schema: schema }, about);
  },
  /** Has the frontend run a tool that it declared (run.clientTools). */
  clientTool(name: string, args: unknown = {}, about: AskOptions = {}): Ask {
    return make("call_client_tool", { name, args }, about);
  },
};

function make(frame: string, data: Record<string, unknown>, { id, expiresIn }: AskOptions): Ask {
  if (id !== undefined && (id === "" || id.includes("~"))) {
    throw new TypeError("the id of a question must not be empty or hold a '~'");
  }
  return new Ask(id ?? "q" + digest([frame, data]), frame, { ...data, expires_in: expiresIn });
}
