// The graph of langgraph.mjs: a model, and tools, one of which interrupts until a person answers. Calls of the page's tools end
// the run.

import { ToolMessage } from '@langchain/core/messages';
import { Annotation, END, MessagesAnnotation, START, StateGraph, interrupt } from '@langchain/langgraph';
import { ChatOpenAI } from '@langchain/openai';

const parameters = (...names) => ({ type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])) });
const own = [['weather', 'city'], ['now'], ['count'], ['send_email', 'to'], ['ask_name']].map(([name, ...names]) => (
  { type: 'function', function: { name, description: name, parameters: parameters(...names) } }));
const isOwn = (call) => own.some((tool) => tool.function.name === call.name);

const model = new ChatOpenAI({ model: 'gpt-4o', apiKey: 'key', maxRetries: 0, configuration: { baseURL: process.env.MODEL_URL } });

async function act({ messages, count = 0 }) {
  const results = [];
  for (const call of messages.at(-1).tool_calls.filter(isOwn)) {
    let value = { counted: true };
    switch (call.name) {
      case 'weather': value = { city: call.args.city, degrees: 7 }; break;
      case 'now': value = { now: 'noon' }; break;
      case 'count': count += 2; break;
      case 'ask_name': value = { name: interrupt({ question: 'What is your name?' }) }; break;
      case 'send_email': value = interrupt({ question: 'Run send_email?', to: call.args.to }).approved ? { sent: call.args.to } : { declined: call.args.to };
    }
    results.push(new ToolMessage({ content: JSON.stringify(value), tool_call_id: call.id, name: call.name }));
  }
  return { messages: results, count };
}

const State = Annotation.Root({ ...MessagesAnnotation.spec, tools: Annotation(), count: Annotation() });

export const graph = new StateGraph(State)
  .addNode('chat', async ({ messages, tools = [] }) => ({ messages: [await model.bindTools([...own, ...tools]).invoke(messages)] }))
  .addNode('act', act)
  .addEdge(START, 'chat')
  .addConditionalEdges('chat', ({ messages }) => ((messages.at(-1).tool_calls ?? []).some(isOwn) ? 'act' : END))
  .addConditionalEdges('act', ({ messages }) => (
    messages.findLast((m) => m.getType() === 'ai').tool_calls.every(isOwn) ? 'chat' : END))
  .compile();
