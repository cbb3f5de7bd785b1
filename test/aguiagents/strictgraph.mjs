// A graph of LangGraph with a memory (its server's) and a model that refuses what OpenAI refuses, and a message that comes twice.
// "both" calls two tools at once, "weather" one, any other word is answered.

import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessageChunk, ToolMessage } from '@langchain/core/messages';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { flat, pieces } from './scripted.mjs';

/** What is wrong with a conversation, by the rules of OpenAI and of a memory that has each message once. */
export function wrong(messages) {
  const ids = messages.map((m) => m.id).filter(Boolean);
  if (new Set(ids).size < ids.length) return `a message comes twice: ${ids}`;
  let open = [];
  for (const m of messages) {
    if (m.getType() === 'tool') {
      if (!open.includes(m.tool_call_id)) return `a result without its call: ${m.tool_call_id}`;
      open = open.filter((id) => id !== m.tool_call_id);
      continue;
    }
    if (open.length) return `calls without results: ${open}`;
    open = (m.tool_calls ?? []).map((c) => c.id);
    if (m.invalid_tool_calls?.length) return `broken arguments: ${JSON.stringify(m.invalid_tool_calls)}`;
  }
  return open.length ? `calls without results: ${open}` : undefined;
}

class Strict extends BaseChatModel {
  _llmType() {
    return 'strict';
  }

  async _generate(messages, options, run) {
    let all;
    for await (const chunk of this._streamResponseChunks(messages, options, run)) all = all ? all.concat(chunk) : chunk;
    return { generations: [all] };
  }

  async* _streamResponseChunks(messages, options, run) {
    const bad = wrong(messages);
    if (bad) throw new Error(`400 ${bad}`);
    const asked = messages.findLastIndex((m) => m.getType() === 'human');
    const word = flat(messages[asked].content).split(' ')[0];
    const cities = { weather: ['Oslo'], both: ['Oslo', 'Bergen'] }[word] ?? [];
    const results = messages.slice(asked).filter((m) => m.getType() === 'tool');
    const saw = messages.map((m) => `${m.getType()}:${flat(m.content)}${(m.tool_calls ?? []).map((c) => JSON.stringify(c.args)).join('')}`).join(' | ');
    const parts = cities.length && !results.length
      ? cities.flatMap((city, index) => [
        { index, id: `call_${messages.length}_${index}`, name: 'weather', args: '', type: 'tool_call_chunk' },
        ...pieces(JSON.stringify({ city }), 5).map((args) => ({ index, args, type: 'tool_call_chunk' })),
      ]).map((part) => ({ content: '', tool_call_chunks: [part] }))
      : pieces(saw, 40).map((content) => ({ content }));
    for (const part of parts) {
      const chunk = new ChatGenerationChunk({ text: part.content, message: new AIMessageChunk(part) });
      yield chunk;
      await run?.handleLLMNewToken(part.content, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}

const model = new Strict({});

export const graph = new StateGraph(MessagesAnnotation)
  .addNode('chat', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addNode('act', ({ messages }) => ({
    messages: messages.at(-1).tool_calls.map((call) => new ToolMessage({ content: `${call.args.city.length} degrees`, tool_call_id: call.id, name: call.name })),
  }))
  .addEdge(START, 'chat')
  .addConditionalEdges('chat', ({ messages }) => (messages.at(-1).tool_calls?.length ? 'act' : END))
  .addEdge('act', 'chat')
  .compile();
