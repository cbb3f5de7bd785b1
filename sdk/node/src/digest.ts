import { createHash } from "node:crypto";

/** A short name for a JSON value: the same for the same, in whatever order its members stand. */
export function digest(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value, sorted)).digest("hex").slice(0, 24);
}

function sorted(_: string, value: unknown): unknown {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  const of = value as Record<string, unknown>;
  return Object.fromEntries(Object.keys(of).sort().map((name) => [name, of[name]]));
}

/**
 * Keys for calls that name none: made of the call's content and of how many such calls came before in this run of the
 * function. So a function that runs again after an answer repeats no call, but gets what the call gave.
 */
export class Keys {
  readonly #counts = new Map<string, number>();

  next(call: unknown): string {
    const kind = digest(call);
    const n = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, n);
    return `sdk-${kind}-${n}`;
  }
}
