// The Aqueduct under judgement, over its public routes.

import assert from 'node:assert/strict';

import { fetch } from './token.mjs';

export const base = process.env.BASE_URL;
if (!base) throw new Error('BASE_URL must name a running Aqueduct (go test ./test/judges starts one)');

let made = 0;

/** newId is an id no other test uses. */
export function newId(what) {
  made += 1;
  return `${what}-${process.pid}-${Date.now().toString(36)}-${made}`;
}

/** post sends JSON and gives the response. */
export function post(path, body, { headers = {}, signal } = {}) {
  return fetch(base + path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    signal,
  });
}

/** getJSON gets a route that must answer 200. */
export async function getJSON(path) {
  const response = await fetch(base + path);
  const text = await response.text();
  assert.equal(response.status, 200, `GET ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** cancelRun stops the Turn of a Run. */
export async function cancelRun(runId) {
  const response = await post(`/api/runs/${runId}/cancel`, {});
  assert.ok(response.ok, `cancel: ${response.status} ${await response.text()}`);
}

/** openApprovals lists the questions of a thread that wait for a person. */
export async function openApprovals(threadId) {
  const page = await getJSON(`/api/approvals?status=PENDING&thread_id=${encodeURIComponent(threadId)}`);
  return page.approvals;
}

/** lastRun is the newest Run of a thread, as GET /api/threads/{id} tells it. */
export async function lastRun(threadId) {
  return (await getJSON(`/api/threads/${encodeURIComponent(threadId)}`)).lastRun;
}

/** atRest waits until nothing runs on a thread and nobody is asked. */
export function atRest(threadId) {
  return until('the Turn goes on to its end', async () => {
    const thread = await getJSON(`/api/threads/${encodeURIComponent(threadId)}`);
    return thread.questions.length === 0 && ['FINISHED', 'CANCELLED', 'FAILED'].includes(thread.lastRun?.status);
  });
}

/** decide answers a question over REST. */
export async function decide(approvalId, decision) {
  const response = await post(`/api/approvals/${approvalId}/decision`, decision);
  return { status: response.status, body: await response.json() };
}

/** offered waits until tools are listed: an MCP server's are when it has started. */
export function offered(...names) {
  return until(`${names.join(' and ')} are offered`, async () => {
    const { tools } = await getJSON('/v1/tools');
    return names.every((name) => tools.some((tool) => tool.name === name));
  });
}

/** until waits for a condition that something else brings about. */
export async function until(what, check, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: not within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
