// The graph of langgraph.mjs: a model that is scripted, and tools, one of which interrupts until somebody answers.

import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessageChunk, ToolMessage } from '@langchain/core/messages';
import { ChatGenerationChunk } from '@langchain/core/outputs';
import { Annotation, END, MessagesAnnotation, START, StateGraph, interrupt } from '@langchain/langgraph';
import { pieces, says } from './scripted.mjs';

const roles = { human: 'user', ai: 'assistant', tool: 'tool' };

class Scripted extends BaseChatModel {
  _llmType() {
    return 'scripted';
  }

  async _generate(messages, options, run) {
    let all;
    for await (const chunk of this._streamResponseChunks(messages, options, run)) all = all ? all.concat(chunk) : chunk;
    return { generations: [all] };
  }

  async* _streamResponseChunks(messages, options, run) {
    const { call, text } = says(messages.map((m) => ({ role: roles[m.getType()], content: m.content })), { count: ['count', '{}'], ask: ['ask_name', '{}'] });
    const [name, args = ''] = call ?? [];
    const begun = { index: 0, id: `call_${messages.length}`, name, args: '', type: 'tool_call_chunk' };
    const parts = call
      ? [begun, ...pieces(args, 5).map((piece) => ({ index: 0, args: piece, type: 'tool_call_chunk' }))].map((part) => ({ content: '', tool_call_chunks: [part] }))
      : pieces(text, 4).map((content) => ({ content }));
    for (const part of parts) {
      const chunk = new ChatGenerationChunk({ text: part.content, message: new AIMessageChunk(part) });
      yield chunk;
      await run?.handleLLMNewToken(part.content, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}

const model = new Scripted({});
async function act({ messages, count = 0 }) {
  const [call] = messages.at(-1).tool_calls;
  const result = (value, more) => ({
    messages: [new ToolMessage({ content: JSON.stringify(value), tool_call_id: call.id, name: call.name })], ...more,
  });
  switch (call.name) {
    case 'weather': return result({ city: call.args.city, degrees: 7 });
    case 'ask_name': return result({ name: interrupt({ question: 'What is your name?' }) });
    case 'count': return result({ counted: true }, { count: count + 2 });
  }
  const { approved } = interrupt({ reason: 'tool_call', message: 'Run send_email?', toolCallId: call.id });
  return result(approved ? { sent: call.args.to } : { declined: call.args.to });
}

/** Where the conversation goes behind the model: its own tools are run, those of the page are the page's. */
function next({ messages }) {
  const [call] = messages.at(-1).tool_calls ?? [];
  return call && call.name !== 'show_map' ? 'act' : END;
}

const State = Annotation.Root({ ...MessagesAnnotation.spec, tools: Annotation(), count: Annotation() });

export const graph = new StateGraph(State)
  .addNode('chat', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addNode('act', act)
  .addEdge(START, 'chat')
  .addConditionalEdges('chat', next)
  .addEdge('act', 'chat')
  .compile();
