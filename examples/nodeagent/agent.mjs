#!/usr/bin/env node
// An agent for Node.js that uses what Aqueduct offers. Its prompts:
//
//   transfer 10 to ada     calls the tool payments.transfer; the policy asks a person. The tool is yours to bring
//                          (--tools-file, docs/tools.md); without one the agent answers that
//   balance of ada         calls the tool payments.balance, and shows the call itself
//   tidy a b               asks a person itself, one question after the other
//   name                   asks for a name
//   ask go hello           calls the agent "go" (examples/goagent) and passes on what it answers
//   remember the milk      keeps the words in the context store, and the key in the thread's state
//   recall                 reads them, in whatever run of the thread
//   forget                 deletes them
//   where                  asks the page, whose tool get_location it is; that of a browser asks the person
//   think about tides      shows its reasoning apart from the answer, and counts tokens
//   history                reads the transcript
//   models                 lists the models that it may call
//   anything else          is repeated
//
// Build the SDK and start it:   make setup-sdk && node examples/nodeagent/agent.mjs
// Then:                         aqueduct serve --agent node=http://127.0.0.1:8071

import { parseArgs } from "node:util";
import { AgentFailed, agent, ask, ContextMoved, frames, ToolFailed } from "../../sdk/node/dist/index.js";

const { values } = parseArgs({ options: { port: { type: "string", default: "8071" } } });

const serving = await agent(choose).listen({ port: Number(values.port) });
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => serving.close().then(() => process.exit()));
console.log("listening on", serving.url);

/** Picks what to do; each way is an async generator. */
function choose(run) {
  const [first, ...rest] = run.prompt.split(" ");
  switch (first) {
    case "transfer":
      return transfer(run, Number(rest[0]), rest[2]);
    case "balance":
      return balance(run, rest[1]);
    case "tidy":
      return tidy(rest);
    case "name":
      return name();
    case "ask":
      return another(run, rest[0], rest.slice(1).join(" "));
    case "remember":
      return remember(run, rest.join(" "));
    case "recall":
      return recall(run);
    case "forget":
      return forget(run);
    case "where":
      return where(run);
    case "think":
      return think(run, rest.slice(1).join(" "));
    case "history":
      return history(run);
    case "models":
      return models(run);
    default:
      return echo(run);
  }
}

/** A tool that Aqueduct runs. It looks like a call, and may take as long as people take. */
async function* transfer(run, amount, to) {
  yield `I will transfer ${amount} to ${to}. `;
  yield frames.state("transferring", { to });
  try {
    const { receipt } = await run.tool.invoke("payments.transfer", { amount, to }, { timeoutMs: 30_000 });
    yield `Done, receipt ${receipt}.`;
  } catch (problem) {
    if (!(problem instanceof ToolFailed)) throw problem;
    yield `It was not done (${problem.code}).`;
  }
}

/** A call that the agent shows itself, where it makes it; under one id it is in the chat once, with Aqueduct's result. */
async function* balance(run, of) {
  yield frames.toolCall("balance", "payments.balance", { of });
  try {
    const { amount } = await run.tool.invoke("payments.balance", { of }, { callId: "balance" });
    yield `${of} has ${amount}.`;
  } catch (problem) {
    if (!(problem instanceof ToolFailed)) throw problem;
    yield `It is not known (${problem.code}).`;
  }
}

/** Something that the agent does itself, so it asks itself. */
async function* tidy(folders) {
  for (const folder of folders) {
    yield `I would like to delete ${folder}. `;
    const answer = yield ask.permission(`Delete the folder ${folder}?`, { tool: "delete_folder", args: { path: folder } });
    yield answer.approved ? `${folder} is deleted. ` : `${folder} stays. `;
  }
}

async function* name() {
  const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  const answer = yield ask.question("What is your name?", { schema });
  yield answer.cancelled ? "As you like." : `Hello ${answer.value.name}.`;
}

async function* another(run, id, message) {
  try {
    const { text } = await run.agents.invoke(id, message, { context: { caller: "the Node example" } });
    yield `${id}: ${text}`;
  } catch (problem) {
    if (!(problem instanceof AgentFailed)) throw problem;
    yield `${id} did not answer (${problem.code}).`;
  }
}

/** Notes of any size: the thread's events carry their key alone. */
async function* remember(run, words) {
  try {
    const before = run.state?.notes ? await run.context.get(run.state.notes) : undefined;
    const kept = await run.context.put([...(before?.value ?? []), words], { key: before?.key, ifVersion: before?.version });
    yield frames.stateSnapshot({ ...run.state, notes: kept.key });
    yield `I will remember that (version ${kept.version}).`;
  } catch (problem) {
    if (!(problem instanceof ContextMoved)) throw problem;
    yield "Another run has written notes at this moment. Please repeat it.";
  }
}

async function* recall(run) {
  if (!run.state?.notes) {
    yield "I remember nothing.";
    return;
  }
  yield `I remember: ${(await run.context.get(run.state.notes)).value.join(", ")}.`;
}

async function* forget(run) {
  if (run.state?.notes) {
    const { key, version } = await run.context.get(run.state.notes);
    await run.context.delete(key, { ifVersion: version });
    yield frames.stateDelta([{ op: "remove", path: "/notes" }]);
  }
  yield "I have forgotten everything.";
}

/** A tool of the page, which sends its tools along with the prompt and runs them itself. */
async function* where(run) {
  if (!run.clientTools.some((tool) => tool.name === "get_location")) {
    yield "This page does not know where it is.";
    return;
  }
  const answer = yield ask.clientTool("get_location", { precise: false });
  yield answer.value?.city ? `You are in ${answer.value.city}.` : "You did not tell me.";
}

async function* think(run, subject) {
  yield frames.thought(`What do I know about ${subject}? `);
  yield frames.thought("Nothing.");
  run.used({ input_tokens: 3, output_tokens: 2 });
  yield `I know nothing about ${subject}.`;
}

async function* history(run) {
  const { messages } = await run.transcript({ limit: 100, form: "openai" });
  yield messages.map((m) => `${m.role}: ${m.content}`).join("; ");
}

/** Any client of OpenAI's API does: new OpenAI(run.llm). */
async function* models(run) {
  const response = await fetch(`${run.llm.baseURL}/models`, { headers: { authorization: `Bearer ${run.llm.apiKey}` }, signal: run.signal });
  yield (await response.json()).data.map((model) => model.id).join(", ");
}

async function* echo(run) {
  for (const word of `You wrote: ${run.prompt}`.split(" ")) yield word + " ";
}
