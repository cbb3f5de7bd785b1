// What a page that comes back starts from: Aqueduct's history. While an answer is being given it
// joins that (a run without messages is a join); else it reads the thread and what is still asked.

import { HttpAgent } from '@ag-ui/client';
import { ExportedMessageRepository } from '@assistant-ui/react';
import { fromAgUiMessages } from '@assistant-ui/react-ag-ui';

export function historyOf(aqueduct, threadId) {
  return {
    async load() {
      const found = await fetch(`${aqueduct}/api/threads/${threadId}`);
      if (!found.ok) return { messages: [] };
      const { lastRun } = await found.json();
      if (!['FINISHED', 'INTERRUPTED', 'CANCELLED', 'FAILED'].includes(lastRun?.status)) return { messages: [], unstable_resume: true };
      const thread = new HttpAgent({ url: `${aqueduct}/api/agui/connect`, threadId });
      await thread.runAgent();
      return { ...ExportedMessageRepository.fromArray(withQuestions(fromAgUiMessages(thread.messages), thread.pendingInterrupts)), state: thread.state };
    },
    async append() {}, // Aqueduct keeps it
  };
}

// assistant-ui looks for open interrupts on the last answer.
function withQuestions(messages, interrupts) {
  const last = messages.findLastIndex((m) => m.role === 'assistant');
  if (!interrupts?.length || last < 0) return messages;
  const asking = { status: { type: 'requires-action', reason: 'interrupt' }, metadata: { custom: { agui: { interrupts } } } };
  return messages.with(last, { ...messages[last], ...asking });
}

/**
 * loadQuestions reads the thread anew where a run has asked and assistant-ui shows no question: it drops those of a run that
 * brings no content but a snapshot, such as a join to an answer that ended between the look of load() and the join.
 * It gives the function that ends it.
 */
export function loadQuestions(agent, runtime, history) {
  const { unsubscribe } = agent.subscribe({
    async onRunFinalized() {
      if (!agent.pendingInterrupts.length || runtime.unstable_getPendingInterrupts().length) return;
      const found = await history.load();
      if (found.messages.length) runtime.thread.import(found);
    },
  });
  return unsubscribe;
}
