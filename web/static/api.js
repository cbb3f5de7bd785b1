// The public routes this page uses. Nothing here is made for the page alone.

const tokenKey = 'aqueduct-token';

/** Refused is an answer other than 2xx, with the server's own words where it gave some. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? '';
  }
}

/** setToken keeps the token for as long as this tab lives. It never gets into a URL. */
export function setToken(token) {
  sessionStorage.setItem(tokenKey, token);
}

/** listThreads gives the newest threads first. */
export async function listThreads() {
  const response = await call('GET', '/api/threads');
  const page = await response.json();
  return page.threads ?? page.items ?? page;
}

/** chat starts a Turn, or answers a question, and streams what comes of it. */
export function chat(input, signal) {
  return call('POST', '/api/agui/chat?follow=1', runAgentInput(input), signal);
}

/** connect streams what a thread has, and what still happens in it. It starts nothing. */
export function connect(threadId, signal) {
  return call('POST', '/api/agui/connect?follow=1', runAgentInput({ threadId }), signal);
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

async function call(method, path, body, signal) {
  const headers = {};
  if (body) headers['Content-Type'] = 'application/json';
  const token = sessionStorage.getItem(tokenKey);
  if (token) headers.Authorization = `Bearer ${token}`;
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
