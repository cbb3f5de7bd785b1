// The frames an agent may send: what docs/protocol.md names under "HTTP agents".

export class Frame {
  constructor(
    readonly name: string,
    readonly data: Record<string, unknown>,
  ) {}
}

/** The bytes of a frame. JSON has no raw line breaks, so one data line is enough. */
export function encode(frame: Frame): string {
  return `event: ${frame.name}\ndata: ${JSON.stringify(frame.data)}\n\n`;
}

/** Frames for people to see. Members that are undefined are left out. */
export const frames = {
  /** Words of the answer. Yielding a string does the same. */
  text: (text: string) => new Frame("delta", { text }),
  /** Words of the reasoning, shown apart from the answer. */
  thought: (text: string) => new Frame("thought", { text }),
  /** What the agent is doing; kept in the chat's state under /agent. */
  state: (state: string, detail?: unknown) => new Frame("state", { state, detail }),
  /** A step of the work. */
  step: (name: string, status: "started" | "finished") => new Frame("step", { name, status }),
  /** Shows a tool that the agent runs itself. The id is the agent's own. */
  toolCall: (id: string, name: string, args: unknown = {}) => new Frame("tool_call", { id, name, args }),
  /** Shows what a tool gave. */
  toolResult: (id: string, content: unknown) => new Frame("tool_result", { id, content }),
  /** The chat's whole state. */
  stateSnapshot: (snapshot: unknown) => new Frame("state_snapshot", { snapshot }),
  /** A change of the chat's state, as JSON Patch (RFC 6902). */
  stateDelta: (delta: unknown[]) => new Frame("state_delta", { delta }),
  /** Something in the chat that is not a message: its content first, then patches of it. */
  activity: (id: string, type: string, what: { content?: object; patch?: unknown[] }) =>
    new Frame("activity", what.patch ? { id, type, patch: what.patch } : { id, type, content: what.content ?? {} }),
  /** Anything the frontend knows by name. */
  custom: (name: string, value: unknown = null) => new Frame("custom", { name, value }),
};

/**
 * The end. pending is always there: an empty list says that the agent waits for nothing, whatever was asked
 * meanwhile, by tools too.
 */
export function done(usage: Record<string, number>, pending: string[], result?: unknown): Frame {
  return new Frame("done", { usage, pending, result });
}

/** The end of an answer that failed. */
export function failure(code: string, message: string): Frame {
  return new Frame("error", { code, message });
}
