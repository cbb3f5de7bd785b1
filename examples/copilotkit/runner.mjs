// The threads are Aqueduct's. CopilotKit's own runner keeps them in the memory of its process
// and answers `connect` from there; this one asks Aqueduct, which gives the history, the answer
// that is still being given, and the questions that are open.

import { HttpAgent } from '@ag-ui/client';
import { AgentRunner } from '@copilotkit/runtime/v2';
import { Observable } from 'rxjs';

export class AqueductRunner extends AgentRunner {
  #open = new Map(); // thread → the Run that is shown, for stop
  constructor(url, headers) { super(); this.url = url; this.headers = headers; }
  run({ agent, input }) { return this.#stream(agent, input); }
  connect({ threadId, headers }) { return this.#stream(new HttpAgent({ url: `${this.url}/api/agui/connect`, threadId, headers: { ...headers, ...this.headers } })); }
  async isRunning({ threadId }) { return this.#open.has(threadId); }
  async stop({ threadId }) {
    const { runId, headers } = this.#open.get(threadId) ?? {};
    return !!runId && (await fetch(`${this.url}/api/runs/${runId}/cancel`, { method: 'POST', headers, body: '{}' })).ok;
  }

  #stream(agent, input) {
    const shown = { headers: { ...agent.headers, ...this.headers, 'content-type': 'application/json' } };
    return new Observable((page) => {
      agent.runAgent(input, {
        onRunStartedEvent: ({ event }) => void this.#open.set(agent.threadId, Object.assign(shown, { runId: event.runId })),
        onEvent: ({ event }) => void page.next(event),
        onRunFailed: ({ error }) => { // 404: a thread in which nothing was said yet
          if (error.status !== 404) page.next({ type: 'RUN_ERROR', message: error.message });
          return { stopPropagation: true };
        },
      }).finally(() => {
        if (this.#open.get(agent.threadId) === shown) this.#open.delete(agent.threadId);
        page.complete();
      });
      return () => agent.abortRun(); // the page left; Aqueduct keeps what it misses
    });
  }
}
