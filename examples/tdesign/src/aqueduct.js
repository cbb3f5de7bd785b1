// What this page asks of Aqueduct besides the chat itself.

import { remember } from './thread.js';

const endpoint = '/api/agui/chat';

// A page that has signed in sends its secret along (docs/access.md). Here Vite's server adds the token, and there is none.
const signedIn = () => ({ 'X-Aqueduct-Page': localStorage.getItem('aqueduct_page') ?? '' });

/**
 * chatService is TDesign's configuration. TDesign builds no body of its own: onRequest
 * says what is sent, a prompt or the answer to a question. The thread goes along, so that
 * a reload finds it again; without it Aqueduct keeps one thread per browser by a cookie.
 */
export function chatService(threadId, onProblem) {
  let runId = '';
  return {
    endpoint,
    protocol: 'agui',
    stream: true,
    onRequest: ({ prompt, toolCallMessage }) => {
      remember(threadId);
      onProblem('');
      return {
        headers: { 'Content-Type': 'application/json', ...signedIn() },
        body: JSON.stringify({ threadId, prompt, toolCallMessage }),
      };
    },
    // Called twice: with the first bytes just as they came, and with RUN_STARTED as JSON.
    onStart: (chunk) => {
      if (chunk.startsWith('{')) runId = JSON.parse(chunk).runId;
    },
    // Closing the connection does not stop the agent: leaving a page must not. The stop
    // button means it, so it says so.
    onAbort: () => cancel(runId),
    onError: (error) => onProblem(error?.message ?? String(error)),
  };
}

async function cancel(runId) {
  if (!runId) return;
  await fetch(`/api/runs/${encodeURIComponent(runId)}/cancel`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...signedIn() },
    body: '{}',
  });
}

/** loadThread gives a thread's history, and whether the agent is at work in it right now. */
export async function loadThread(threadId) {
  const path = `/api/threads/${encodeURIComponent(threadId)}`;
  const [thread, messages] = await Promise.all([fetchJSON(path), fetchJSON(`${path}/messages`)]);
  return { messages: messages ?? [], running: thread?.lastRun?.status === 'RUNNING' };
}

// A thread nobody has written to yet is unknown to the server, and empty here.
async function fetchJSON(path) {
  const response = await fetch(path, { headers: signedIn() });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}
