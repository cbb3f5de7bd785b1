// What this page asks of Aqueduct.
//
// TDesign builds no body: onRequest does. {threadId, prompt} is enough for words alone
// (../tdesign). Frontend tools, pictures and the page's state need a RunAgentInput, which this
// page builds by hand; ?dialect=tdesign then asks for the events that TDesign understands.

const key = 'aqueduct-tdesign-vue-thread';
const endpoint = '/api/agui/chat?dialect=tdesign';

// A page that has signed in sends its secret along (docs/access.md). Here Vite's server adds the token, and there is none.
const signedIn = () => ({ 'X-Aqueduct-Page': localStorage.getItem('aqueduct_page') ?? '' });

/** rememberedThread is the thread of before the reload, or ''. */
export const rememberedThread = () => localStorage.getItem(key) ?? '';

/** newThread begins anew; the server knows the thread with the first message. */
export function newThread() {
  localStorage.removeItem(key);
  return newId();
}

/** newId is an id for a thread or a message. randomUUID exists only on https and localhost. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}

/** chatService is TDesign's configuration. page gives what goes along: tools and state. */
export function chatService(threadId, page) {
  let runId = '';
  return {
    endpoint,
    protocol: 'agui',
    stream: true,
    onRequest: (params) => {
      localStorage.setItem(key, threadId);
      page.onProblem('');
      return { headers: { 'Content-Type': 'application/json', ...signedIn() }, body: JSON.stringify(body(threadId, params, page)) };
    },
    onStart: (chunk) => {
      if (chunk.startsWith('{')) runId = JSON.parse(chunk).runId;
    },
    // Closing the connection does not stop the agent: leaving a page must not.
    onAbort: () => cancel(runId),
    onError: (error) => page.onProblem(error?.message ?? String(error)),
  };
}

// body is an answer, a new message, or neither: then it joins. The message's id is the page's,
// and stays when TDesign repeats its last request to regenerate an answer.
function body(threadId, { prompt, promptId, picture, toolCallMessage }, { tools, state }) {
  const input = { threadId, runId: '', messages: [], tools, context: [], state: state() };
  if (toolCallMessage) return { ...input, forwardedProps: { toolCallMessage } };
  if (!prompt) return { threadId };
  const content = picture ? [{ type: 'text', text: prompt }, { type: 'image', source: picture }] : prompt;
  return { ...input, messages: [{ id: promptId, role: 'user', content }] };
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

async function fetchJSON(path) {
  const response = await fetch(path, { headers: signedIn() });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** readPicture gives a file as the source of a content part. */
export async function readPicture(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = '';
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return { type: 'data', value: btoa(binary), mimeType: file.type };
}
