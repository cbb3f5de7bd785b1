// What can go wrong. Each error has a stable code, and a message that may be shown to people.

export class AqueductError extends Error {
  constructor(
    readonly code: string,
    readonly reason: string,
  ) {
    super(reason);
    this.name = new.target.name;
  }
}

/** Thrown by an agent to end its answer with an error of its own. */
export class AgentError extends AqueductError {}

/** A tool gave no result: it failed, was refused, or nobody approved it. */
export class ToolFailed extends AqueductError {}

/** Another agent that was called did not finish, or could not be called. */
export class AgentFailed extends AqueductError {}

/** The context store, or the transcript, refused or could not be reached. */
export class ContextFailed extends AqueductError {}

/** The entry has another version than the one that was to be replaced. */
export class ContextMoved extends ContextFailed {}

/** Nobody reads this answer any more: the run was cancelled, or the server left. */
export class Gone extends AqueductError {
  constructor() {
    super("gone", "Nobody waits for this answer any more.");
  }
}
