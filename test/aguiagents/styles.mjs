// How frameworks write their AG-UI streams. Each is written after the file that is named, at the version that is named; a
// member that is undefined is not sent. What a framework can (plays) is what its test plays.

import { pieces as cut } from './scripted.mjs';

const pieces = (text) => cut(text ?? '', 4);
const object = (value) => JSON.stringify(value);

/** The form that most have in common. */
const common = {
  begin: (r) => r.send('RUN_STARTED', r.names),
  history: (r) => [...r.input.messages, ...r.added],
  answer: (r) => r.input.resume?.[0]?.payload,
  text(r, messageId, text) {
    r.send('TEXT_MESSAGE_START', { messageId, role: 'assistant' });
    for (const delta of pieces(text)) r.send('TEXT_MESSAGE_CONTENT', { messageId, delta });
    r.send('TEXT_MESSAGE_END', { messageId });
  },
  call(r, parentMessageId, { id: toolCallId, function: f }) {
    r.send('TOOL_CALL_START', { toolCallId, toolCallName: f.name, parentMessageId });
    r.send('TOOL_CALL_ARGS', { toolCallId, delta: f.arguments });
    r.send('TOOL_CALL_END', { toolCallId });
  },
  step(r, content, toolCalls) {
    const id = r.id('message');
    if (content) this.text(r, id, content);
    for (const call of toolCalls) this.call(r, id, call);
    return assistant(id, content, toolCalls);
  },
  result(r, { id: toolCallId }, value) {
    const messageId = r.id('result');
    r.send('TOOL_CALL_RESULT', { messageId, toolCallId, content: object(value), role: 'tool' });
    return tool(messageId, toolCallId, value);
  },
  finish: (r, outcome) => r.send('RUN_FINISHED', { ...r.names, outcome }),
};

const assistant = (id, content, toolCalls) => ({ id, role: 'assistant', content: content || undefined, ...(toolCalls.length && { toolCalls }) });
const tool = (id, toolCallId, value) => ({ id, role: 'tool', toolCallId, content: object(value) });
const snapshot = (r) => r.send('MESSAGES_SNAPSHOT', { messages: [...r.input.messages, ...r.added] });
const changed = (r) => object(r.state) !== object(r.input.state ?? {});
const interrupt = (...interrupts) => ({ type: 'interrupt', interrupts });

/** A conversation in which the calls of one turn are one message, as in a framework's own memory. */
const inTurns = (messages) => messages.reduce((all, m) => {
  const last = all.at(-1);
  if (!m.toolCalls?.length || last?.role !== 'assistant') return [...all, m];
  return [...all.slice(0, -1), { ...last, toolCalls: [...last.toolCalls ?? [], ...m.toolCalls] }];
}, []);

/** The answer to a call as a tool message that ends the conversation. */
const answered = (r, toolCallId) => {
  const last = r.input.messages.at(-1);
  return last?.role === 'tool' && last.toolCallId === toolCallId ? { approved: JSON.parse(last.content).accepted } : undefined;
};

export const styles = {
  // The tools are the page's alone. One message has all text and all calls of a run; results are in the snapshot only.
  vercel: {
    ...common,
    row: 'Vercel AI SDK', own: false, plays: ['chat', 'page', 'texts'],
    source: 'ag-ui-protocol/ag-ui, integrations/vercel-ai-sdk/typescript/src/index.ts', version: '0.0.2',
    step(r, content, toolCalls) {
      const messageId = r.id('message');
      for (const delta of pieces(content)) r.send('TEXT_MESSAGE_CHUNK', { role: 'assistant', messageId, delta });
      for (const call of toolCalls) this.call(r, messageId, call);
      return { id: messageId, role: 'assistant', content, toolCalls };
    },
    end(r) {
      snapshot(r);
      this.finish(r);
    },
  },

  // Members of the run in every event; thoughts with a signature, which its snapshots leave out (the client then drops them); the
  // cost of the run as its result.
  claude: {
    ...common,
    row: 'Claude Agent SDK', page: { forgetsThoughts: true }, plays: ['chat', 'tool', 'page', 'state', 'regenerate'],
    source: 'ag-ui-protocol/ag-ui, integrations/claude-agent-sdk/typescript/src/adapter.ts, utils.ts', version: '0.0.3',
    begin(r) {
      r.send('RUN_STARTED', r.names);
      if (Object.keys(r.input.state ?? {}).length) r.send('STATE_SNAPSHOT', { snapshot: r.input.state });
    },
    step(r, content, toolCalls) {
      const { send } = r;
      const messageId = r.id('message');
      const thought = r.id('thought');
      send('REASONING_START', { messageId: thought });
      send('REASONING_MESSAGE_START', { messageId: thought, role: 'reasoning' });
      send('REASONING_MESSAGE_CONTENT', { messageId: thought, delta: 'Hm.' });
      send('REASONING_MESSAGE_END', { messageId: thought });
      send('REASONING_END', { messageId: thought });
      send('REASONING_ENCRYPTED_VALUE', { subtype: 'message', entityId: messageId, encryptedValue: 'c2lnbmF0dXJl' });
      if (content) send('TEXT_MESSAGE_START', { ...r.names, messageId, role: 'assistant' });
      for (const delta of pieces(content)) send('TEXT_MESSAGE_CONTENT', { ...r.names, messageId, delta });
      for (const { id: toolCallId, function: f } of toolCalls) {
        send('TOOL_CALL_START', { ...r.names, toolCallId, toolCallName: f.name, parentMessageId: messageId });
        send('TOOL_CALL_ARGS', { ...r.names, toolCallId, delta: f.arguments });
        send('TOOL_CALL_END', { ...r.names, toolCallId });
      }
      if (content) send('TEXT_MESSAGE_END', { ...r.names, messageId });
      return assistant(messageId, content, toolCalls);
    },
    result(r, { id: toolCallId, function: f }, value) {
      if (f.name === 'count') r.send('STATE_SNAPSHOT', { snapshot: r.state });
      const messageId = `${toolCallId}-result`;
      r.send('TOOL_CALL_RESULT', { ...r.names, messageId, toolCallId, content: object(value), role: 'tool' });
      return tool(messageId, toolCallId, value);
    },
    end(r) {
      snapshot(r);
      r.send('RUN_FINISHED', { ...r.names, result: { isError: false, numTurns: r.added.length } });
    },
  },

  // Steps, chunks, a snapshot of the messages and of a state that holds them too; a pause is told as CUSTOM on_interrupt.
  crewai: {
    ...common,
    row: 'CrewAI', plays: ['chat', 'tool', 'page', 'state', 'interrupt', 'regenerate'], page: { resumesById: true },
    source: 'ag-ui-protocol/ag-ui, integrations/crew-ai/python/ag_ui_crewai/endpoint.py, _hitl.py', version: '0.3.0',
    step(r, content, toolCalls) {
      const messageId = r.id('message');
      r.send('STEP_STARTED', { stepName: 'chat', rawEvent: { flow: 'Flow', method: 'chat' } });
      for (const delta of pieces(content)) r.send('TEXT_MESSAGE_CHUNK', { messageId, role: 'assistant', delta });
      for (const { id: toolCallId, function: f } of toolCalls) {
        for (const delta of pieces(f.arguments)) r.send('TOOL_CALL_CHUNK', { toolCallId, toolCallName: f.name, parentMessageId: messageId, delta });
      }
      const said = assistant(messageId, content, toolCalls);
      this.state({ ...r, added: [...r.added, said] });
      r.send('STEP_FINISHED', { stepName: 'chat', rawEvent: { flow: 'Flow', method: 'chat' } });
      return said;
    },
    state(r) {
      snapshot(r);
      r.send('STATE_SNAPSHOT', { snapshot: { ...r.state, id: r.input.threadId, messages: [...r.input.messages, ...r.added] } });
    },
    end(r, email) {
      this.state(r);
      if (email) {
        const value = { id: r.input.threadId, reason: 'crewai:human_feedback', message: 'Send it?', metadata: { crewai: { flowId: r.input.threadId, methodName: 'send', output: email.function.arguments } } };
        r.send('CUSTOM', { name: 'on_interrupt', value });
      }
      this.finish(r);
    },
  },

  // An empty message before calls; a result has the id of its call; a pause is a call without a result.
  agno: {
    ...common,
    row: 'Agno', plays: ['chat', 'tool', 'page', 'state', 'interrupt', 'regenerate'], page: { answersCalls: 'send_email' },
    source: 'agno-agi/agno, libs/agno/agno/os/interfaces/agui/handlers.py', version: '03bdecb',
    answer: (r, email) => answered(r, email.id),
    step(r, content, toolCalls) {
      const id = r.id('message');
      if (content || toolCalls.length) this.text(r, id, content ?? '');
      for (const call of toolCalls) this.call(r, id, call);
      return assistant(id, content, toolCalls);
    },
    result(r, { id: toolCallId }, value) {
      r.send('TOOL_CALL_RESULT', { toolCallId, content: object(value), role: 'tool', messageId: toolCallId });
      if (changed(r)) r.send('STATE_DELTA', { delta: [{ op: r.input.state?.count === undefined ? 'add' : 'replace', path: '/count', value: r.state.count }] });
      return tool(toolCallId, toolCallId, value);
    },
    history(r) { // what was decided gives way to what the tool gave
      const all = [...r.input.messages, ...r.added];
      return all.filter((m, i) => m.role !== 'tool' || !all.slice(i + 1).some((later) => later.toolCallId === m.toolCallId));
    },
    end(r) {
      r.send('STATE_SNAPSHOT', { snapshot: r.state });
      this.finish(r);
    },
  },

  // A call behind a result has that result's message as its parent; approvals with edited arguments and a reason.
  pydantic: {
    ...common,
    row: 'Pydantic AI', plays: ['chat', 'tool', 'page', 'state', 'interrupt', 'edited', 'reasoned', 'regenerate'],
    source: 'pydantic/pydantic-ai, pydantic_ai_slim/pydantic_ai/ui/ag_ui/_event_stream.py, _interrupt.py', version: '0f0b81b',
    step(r, content, toolCalls) {
      if (content || !r.current) r.current = r.id('message');
      if (content) this.text(r, r.current, content);
      for (const call of toolCalls) this.call(r, r.current, call);
      return assistant(r.current, content, toolCalls);
    },
    result(r, { id: toolCallId, function: f }, value) {
      r.current = r.id('result');
      r.send('TOOL_CALL_RESULT', { messageId: r.current, toolCallId, content: object(value), role: 'tool' });
      if (f.name === 'count') r.send('STATE_SNAPSHOT', { snapshot: r.state });
      return tool(r.current, toolCallId, value);
    },
    end(r, email) {
      this.finish(r, email ? interrupt({
        id: `int-${email.id}`, reason: 'tool_call', toolCallId: email.id, message: `Approve send_email(${email.function.arguments})?`,
        responseSchema: {
          type: 'object', required: ['approved'],
          properties: { approved: { type: 'boolean' }, editedArgs: { type: 'object' }, reason: { type: 'string' } },
        },
      }) : { type: 'success' });
    },
  },

  // A message is opened before the first call; a snapshot; approvals by a schema of the arguments.
  maf: {
    ...common,
    row: 'Microsoft Agent Framework (Python)', plays: ['chat', 'tool', 'page', 'state', 'interrupt', 'edited', 'regenerate'],
    source: 'microsoft/agent-framework, python/packages/ag-ui/agent_framework_ag_ui/_run_common.py', version: '033174c',
    step(r, content, toolCalls) {
      const messageId = r.id('message');
      r.send('TEXT_MESSAGE_START', { messageId, role: 'assistant' });
      for (const delta of pieces(content)) r.send('TEXT_MESSAGE_CONTENT', { messageId, delta });
      const parent = content && toolCalls.length ? r.id('message') : messageId;
      for (const { id: toolCallId, function: f } of toolCalls) {
        r.send('TOOL_CALL_START', { toolCallId, toolCallName: f.name, parentMessageId: parent });
        for (const delta of pieces(f.arguments)) r.send('TOOL_CALL_ARGS', { toolCallId, delta });
        r.send('TOOL_CALL_END', { toolCallId });
      }
      r.send('TEXT_MESSAGE_END', { messageId });
      if (parent !== messageId) r.added.push(assistant(messageId, content, []));
      return assistant(parent, parent === messageId ? content : '', toolCalls);
    },
    result(r, call, value) {
      const message = common.result(r, call, value);
      if (call.function.name === 'count') r.send('STATE_SNAPSHOT', { snapshot: r.state });
      return message;
    },
    end(r, email) {
      snapshot(r);
      const call = email && { call_id: email.id, name: 'send_email', arguments: JSON.parse(email.function.arguments) };
      this.finish(r, email && interrupt({
        id: `approval-${email.id}`, reason: 'tool_call', message: 'Approve running send_email?', toolCallId: email.id,
        responseSchema: {
          type: 'object', anyOf: [{ required: ['approved'] }, { required: ['accepted'] }], additionalProperties: false,
          properties: {
            approved: { type: 'boolean', description: 'Whether the requested tool call is approved.' },
            accepted: { type: 'boolean', description: 'Legacy alias for approved.' },
            to: { type: 'string' },
            editedArgs: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'], additionalProperties: false },
          },
        },
        metadata: { agent_framework: { type: 'function_approval_request', function_call: call } },
      }));
    },
  },

  // An approval is a CUSTOM event, and a call of confirm_changes, which the page answers.
  mafold: {
    ...common,
    row: 'Microsoft Agent Framework (Python, before outcomes)', plays: ['chat', 'tool', 'page', 'state', 'interrupt', 'regenerate'],
    page: { answersCalls: 'confirm_changes' },
    source: 'microsoft/agent-framework, python/packages/ag-ui/agent_framework_ag_ui/_events.py', version: '12db37b',
    answer: (r) => {
      const confirm = r.input.messages.flatMap((m) => m.toolCalls ?? []).findLast((c) => c.function.name === 'confirm_changes');
      return confirm && answered(r, confirm.id);
    },
    call(r, parentMessageId, { id: toolCallId, function: f }) {
      r.send('TOOL_CALL_START', { toolCallId, toolCallName: f.name, parentMessageId });
      r.send('TOOL_CALL_ARGS', { toolCallId, delta: f.arguments });
      r.send('TOOL_CALL_END', { toolCallId });
    },
    // The model sees the call, and what the tool gave, where the page sees a confirmation.
    history(r) {
      const confirms = new Set(r.input.messages.flatMap((m) => m.toolCalls ?? []).filter((c) => c.function.name === 'confirm_changes').map((c) => c.id));
      return [...r.input.messages, ...r.added].filter((m) => !confirms.has(m.toolCallId))
        .map((m) => (m.toolCalls ? { ...m, toolCalls: m.toolCalls.filter((c) => !confirms.has(c.id)) } : m))
        .filter((m) => m.role !== 'assistant' || m.content || m.toolCalls?.length);
    },
    result(r, call, value) {
      const message = common.result(r, call, value);
      if (call.function.name === 'count') r.send('STATE_SNAPSHOT', { snapshot: r.state });
      return message;
    },
    end(r, email) {
      if (email) {
        const f = { name: 'send_email', arguments: JSON.parse(email.function.arguments) };
        r.send('CUSTOM', { name: 'function_approval_request', value: { id: r.id('approval'), function_call: { call_id: email.id, ...f } } });
        const steps = [{ description: 'Execute send_email', status: 'enabled' }];
        this.call(r, undefined, {
          id: r.id('confirm'),
          function: { name: 'confirm_changes', arguments: object({ function_name: f.name, function_call_id: email.id, function_arguments: f.arguments, steps }) },
        });
      }
      this.finish(r);
    },
  },

  // A message ends when the next begins or the run ends; the results of one turn share an id.
  dotnet: {
    ...common,
    row: 'Microsoft Agent Framework (.NET)', plays: ['chat', 'tool', 'page', 'regenerate'],
    source: 'microsoft/agent-framework, dotnet/src/Microsoft.Agents.AI.AGUI/Shared/ChatResponseUpdateAGUIExtensions.cs', version: '01e0643',
    step(r, content, toolCalls) {
      const messageId = r.id('message');
      r.results = undefined;
      if (content) {
        this.close(r);
        r.send('TEXT_MESSAGE_START', { messageId, role: 'assistant' });
        r.open = messageId;
      }
      for (const delta of pieces(content)) r.send('TEXT_MESSAGE_CONTENT', { messageId, delta });
      for (const call of toolCalls) this.call(r, messageId, call);
      return assistant(messageId, content, toolCalls);
    },
    close(r) {
      if (r.open) r.send('TEXT_MESSAGE_END', { messageId: r.open });
      r.open = undefined;
    },
    result(r, { id: toolCallId }, value) {
      r.results ??= r.id('result');
      r.send('TOOL_CALL_RESULT', { messageId: r.results, toolCallId, content: object(value), role: 'tool' });
      return tool(r.results, toolCallId, value);
    },
    end(r) {
      this.close(r);
      this.finish(r);
    },
  },

  // Calls have no parent; the page's tools are long-running calls; the state is sent at the end.
  adk: {
    ...common,
    history: (r) => inTurns(common.history(r)),
    row: 'Google ADK', plays: ['chat', 'tool', 'page', 'state', 'regenerate'],
    loose: ['two tools of the page at once'], // calls without a parent are messages of their own, and each gets its result behind it
    source: 'ag-ui-protocol/ag-ui, integrations/adk-middleware/python/src/ag_ui_adk/event_translator.py, adk_agent.py', version: '0.7.0',
    step(r, content, toolCalls) {
      const id = r.id('message');
      if (content) this.text(r, id, content);
      for (const call of toolCalls) this.call(r, undefined, call);
      return assistant(id, content, toolCalls);
    },
    result(r, call, value) {
      const message = common.result(r, call, value);
      if (call.function.name === 'count') r.send('STATE_DELTA', { delta: [{ op: 'add', path: '/count', value: r.state.count }] });
      return message;
    },
    end(r) {
      if (Object.keys(r.state).length) r.send('STATE_SNAPSHOT', { snapshot: r.state });
      this.finish(r);
    },
  },

  // Chunks with a time in seconds, calls of no parent; after the agent's own tools a snapshot whose messages have other ids, and
  // no calls.
  llamaindex: {
    ...common,
    history: (r) => inTurns(common.history(r)),
    row: 'LlamaIndex', plays: ['chat', 'tool', 'page', 'texts'],
    loose: ['two tools of the page at once'], // calls without a parent are messages of their own, and each gets its result behind it
    cannot: ['tool'], // its own snapshot leaves results without calls
    source: 'run-llama/llama_index, llama-index-protocols-ag-ui, agent.py, utils.py', version: '0020647',
    step(r, content, toolCalls) {
      const messageId = r.id('message');
      for (const delta of pieces(content)) r.send('TEXT_MESSAGE_CHUNK', { role: 'assistant', delta, timestamp: 1764000000, messageId });
      for (const { id: toolCallId, function: f } of toolCalls) {
        r.send('TOOL_CALL_CHUNK', { toolCallId, toolCallName: f.name, delta: f.arguments, timestamp: 1764000000 });
      }
      return assistant(messageId, content, toolCalls);
    },
    result(r, { id: toolCallId }, value) {
      const message = tool(r.id('result'), toolCallId, value);
      const renamed = [...r.input.messages, ...r.added, message].map((m) => (m.role === 'tool' ? m : { ...m, id: r.id('other'), toolCalls: undefined }));
      r.send('MESSAGES_SNAPSHOT', { messages: renamed, timestamp: 1764000000 });
      return message;
    },
    end(r) {
      this.finish(r);
    },
  },
};
