// The public routes this page uses. Nothing here is made for the page alone.

/** Refused is an answer other than 2xx, with the server's own words where it gave some. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? '';
  }
}

/** signIn trades the access token for a cookie that no script can read, this one included. */
export function signIn(token) {
  return call('POST', '/api/session', { token });
}

/** signInByCode trades the code of a sign-in link for the same cookie, once. */
export function signInByCode(code) {
  return call('POST', '/api/session', { code });
}

/** whoAmI says who is signed in, and where somebody may sign in who is not. */
export function whoAmI() {
  return getJSON('/api/session');
}

/** signOut ends the session, and gives where it ends at the provider, if anywhere. */
export async function signOut(path) {
  return (await (await call('POST', path, {})).json()).redirect ?? '';
}

/** listThreads gives the newest threads first. */
export async function listThreads() {
  return (await getJSON('/api/threads')).threads;
}

/** listAgents gives the agents that a thread can begin with. */
export async function listAgents() {
  return (await getJSON('/v1/agents?limit=1000')).agents;
}

/**
 * chat starts a Turn, or answers a question, and streams the Run that comes of it. A thread
 * that begins with it belongs to the agent named, or to the server's default.
 */
export function chat(input, signal, agent) {
  const query = agent ? `?agent=${encodeURIComponent(agent)}` : '';
  return call('POST', `/api/agui/chat${query}`, runAgentInput(input), signal);
}

/** connect streams what a thread has, and the Run that goes on in it. It starts nothing. */
export function connect(threadId, signal) {
  return call('POST', '/api/agui/connect', runAgentInput({ threadId }), signal);
}

/** lastRun is the newest Run of a thread, undefined before the first. */
export async function lastRun(threadId) {
  return (await getJSON(`/api/threads/${encodeURIComponent(threadId)}`)).lastRun;
}

/** eventsAfter is where a thread's log can be listened to, across its Runs, after a seq. */
export function eventsAfter(threadId, seq) {
  return `/api/threads/${encodeURIComponent(threadId)}/events?after=${seq}`;
}

/**
 * lastEvents gives {seq, event} of a thread's newest Run, if that is over: joining replays
 * one that is not.
 */
export async function lastEvents(threadId) {
  const run = await lastRun(threadId);
  if (!run?.lastSeq) return [];
  return (await getJSON(`/api/runs/${encodeURIComponent(run.id)}/events`)).events;
}

/** cancelRun stops the Turn a Run belongs to. */
export function cancelRun(runId) {
  return call('POST', `/api/runs/${encodeURIComponent(runId)}/cancel`, {});
}

/** newId is a fresh id; randomUUID is missing where the page is served without TLS. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

function runAgentInput({ threadId, messages = [], resume }) {
  const input = { threadId, runId: newId(), protocolVersion: '1.0', messages, tools: [], context: [], state: {}, forwardedProps: {} };
  return resume ? { ...input, resume } : input;
}

async function getJSON(path) {
  return (await call('GET', path)).json();
}

async function call(method, path, body, signal) {
  const headers = body ? { 'Content-Type': 'application/json' } : {};
  const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Refused(response.status, await problemOf(response));
  return response;
}

async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return {}; // a proxy's page, not the server's
  }
}
