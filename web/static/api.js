// The public routes this page uses. Nothing here is made for the page alone.

/** Refused is an answer other than 2xx, with the server's own words where it gave some. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? '';
  }
}

/** secretKey names the page's secret in localStorage, which other ports of this host cannot read. */
export const secretKey = 'aqueduct_page';

const secretHeader = 'X-Aqueduct-Page';
const pageSecret = () => globalThis.localStorage?.getItem(secretKey);

/**
 * signIn trades a credential for a cookie that no script can read, this one included, and for the page's secret, without which
 * the cookie opens nothing. The credential is { token }, the { code } of a sign-in link, or the { ticket } of a sign-in at a
 * provider.
 */
export async function signIn(credential) {
  const response = await call('POST', '/api/session', credential);
  localStorage.setItem(secretKey, response.headers.get(secretHeader));
}

/** whoAmI says who is signed in, and where somebody may sign in who is not. */
export function whoAmI() {
  return getJSON('/api/session');
}

/** signOut ends the session, and gives where it ends at the provider, if anywhere. */
export async function signOut(path) {
  const { redirect } = await (await call('POST', path, {})).json();
  localStorage.removeItem(secretKey);
  return redirect ?? '';
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

/** eventsAfter streams a thread's log, across its Runs, after a seq. */
export function eventsAfter(threadId, seq, signal) {
  return call('GET', `/api/threads/${encodeURIComponent(threadId)}/events?after=${seq}`, undefined, signal, { Accept: 'text/event-stream' });
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

let askSignIn; // has the person sign in; resolves when that was done

/** onSignedOut says what has the person sign in when the server refuses a request for that. */
export function onSignedOut(ask) {
  askSignIn = ask;
}

// call repeats a request that was refused with 401 when the person has signed in, here or in another tab: what was typed
// goes out then. The sign-in itself is not repeated.
async function call(method, path, body, signal, more) {
  for (;;) {
    const secret = pageSecret();
    const headers = { ...more, ...(body && { 'Content-Type': 'application/json' }), ...(secret && { [secretHeader]: secret }) };
    const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
    if (response.ok) return response;
    const refused = new Refused(response.status, await problemOf(response));
    if (refused.status !== 401 || path === '/api/session' || !askSignIn) throw refused;
    if (pageSecret() === secret && !await askSignIn()) throw refused;
  }
}

async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return {}; // a proxy's page, not the server's
  }
}
