// Agents for Aqueduct. README.md has the whole of it in examples.

export { Agent, agent, type AgentOptions, type Serving } from "./server.js";
export { ask, Answer, type Ask, type AskOptions, type Option } from "./ask.js";
export { frames, Frame } from "./frames.js";
export { Run, type Message, type Page, type TranscriptQuery } from "./run.js";
export type { AnswerFunction, Item } from "./script.js";
export type { AgentOptions as InvokeOptions, AgentReply, AgentState } from "./agents.js";
export type { Entry, PutOptions } from "./context.js";
export type { ToolOptions } from "./tools.js";
export { AgentError, AgentFailed, AqueductError, ContextFailed, ContextMoved, Gone, ToolFailed } from "./errors.js";
