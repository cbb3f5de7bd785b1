// Five people of two tenants sign in at a real OpenID provider, each in a browser profile of its own, and share a thread.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { launch } from '../judges/lib/chromium.mjs';
import { Program } from '../judges/lib/program.mjs';
import { OpenIDProvider, audience, client, people, script } from './provider.mjs';

const revokedWithin = 15_000;

let browser;
let program;
let provider;
const folder = mkdtempSync(join(tmpdir(), 'aqueduct-oidc-'));
const team = {};

before(async () => {
  provider = await OpenIDProvider.start();
  const file = (name, text) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    chmodSync(path, 0o600);
    return path;
  };
  const mapping = file('mapping.yaml', `
tenant: {claim: org}
roles:
  claim: groups
  map:
    approvers: [approver]
    admins: [admin]
`);
  [browser, program] = await Promise.all([launch(), Program.start('2ms', [
    '--oidc-issuer', provider.issuer, '--oidc-client-id', client.id, '--oidc-client-secret-file', file('secret', client.secret),
    '--oidc-mapping', mapping, '--oidc-audience', audience,
  ])]);
  provider.serve(program.url);
});

after(async () => {
  await browser?.close();
  await program?.close();
  provider?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Person is one who signs in by the page. */
class Person {
  static async signIn(name) {
    const person = new Person();
    person.name = name;
    person.context = await browser.newContext();
    person.page = await person.context.newPage();
    await person.page.goto(`${program.url}/`);
    await person.page.getByRole('link', { name: 'Sign in' }).click();
    await person.page.locator('input[name=login]').fill(name);
    await person.page.locator('input[name=password]').fill('any');
    await person.page.getByRole('button', { name: 'Sign-in' }).click();
    await person.page.getByRole('button', { name: 'Continue' }).click(); // consent
    await person.page.waitForURL((url) => url.origin === program.url && url.pathname === '/');
    const secret = await person.page.waitForFunction(() => localStorage.getItem('aqueduct_page'));
    person.secret = { 'X-Aqueduct-Page': await secret.jsonValue() };
    return person;
  }

  async request(method, path, data) {
    const response = await this.context.request.fetch(program.url + path, { method, data, headers: { ...this.secret, ...(data && { 'Content-Type': 'application/json' }) } });
    return { status: response.status(), text: await response.text() };
  }

  async get(path) {
    const { status, text } = await this.request('GET', path);
    assert.equal(status, 200, `${this.name}: GET ${path}: ${text}`);
    return JSON.parse(text);
  }

  async send(text) {
    await this.page.getByLabel('Message').fill(text);
    await this.page.getByRole('button', { name: 'Send' }).click();
  }

  status(want) {
    return this.page.locator(`#talk[data-run="${want}"]`).waitFor({ timeout: 15_000 });
  }

  get thread() {
    return decodeURIComponent(new URL(this.page.url()).hash.slice(1));
  }
}

test('five people of two tenants sign in, and each sees what is theirs', async () => {
  const names = Object.keys(people).filter((name) => people[name].org);
  for (const person of await Promise.all(names.map((name) => Person.signIn(name)))) team[person.name] = person;
  for (const name of names) {
    const who = await team[name].get('/api/session');
    assert.deepEqual([who.signedIn, who.tenant, who.user], [true, people[name].org, name]);
    assert.equal(who.roles.includes('approver'), people[name].groups.includes('approvers'));
    assert.equal(who.roles.includes('admin'), people[name].groups.includes('admins'));
    await team[name].page.locator('#who').getByText(name).waitFor();
  }
  await Promise.all(names.map(async (name) => {
    await team[name].send(`text from ${name}`);
    await team[name].status('finished');
  }));
  for (const name of names) {
    const { threads } = await team[name].get('/api/threads');
    assert.deepEqual(threads.map((t) => t.id), [team[name].thread], `${name} sees other threads`);
  }
  const cookies = await team.ana.context.cookies(program.url);
  const session = cookies.find((c) => c.name.includes('aqueduct_session'));
  assert.ok(session.httpOnly && session.sameSite === 'Strict', JSON.stringify(session));
  assert.ok(!cookies.some((c) => c.name.startsWith('aqueduct_signin_')), 'the sign-in left its cookie behind');
});

test('a sign-in that the page did not begin signs nobody in', async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${program.url}/#signed-in=aqt_of_a_stranger`);
  await page.getByRole('dialog').getByText(/not begun on this page/).waitFor();
  assert.equal(new URL(page.url()).hash, '');
  await context.close();
});

test('who has no tenant is told so, and is not signed in', async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${program.url}/api/session/oidc/login`);
  await page.locator('input[name=login]').fill('stray');
  await page.locator('input[name=password]').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('dialog').getByText(/have no place here/).waitFor();
  assert.equal((await context.request.get(`${program.url}/api/threads`)).status(), 401);
  await context.close();
});

test('a callback that no sign-in of this browser began signs nobody in', async () => {
  const context = await browser.newContext();
  for (const query of ['', '?code=x&state=y', '?state=&code=x', '?error=access_denied&state=y']) {
    const response = await context.request.get(`${program.url}/api/session/oidc/callback${query}`, { maxRedirects: 0 });
    assert.equal(response.status(), 303);
    assert.match(response.headers().location, /^\/#signin=signin_/);
    assert.ok(!/aqueduct_session=[^;]/.test(response.headers()['set-cookie'] ?? ''));
  }
  await context.close();
});

test('a shared thread is seen by those it is shared with, and an approver decides in it live', async () => {
  const { ana, ben, cleo, dora, emil } = team;
  const thread = (await ana.get(`/api/threads/${ana.thread}`)).sessionId;
  const absent = await emil.request('GET', '/api/threads/0198c000-0000-7000-8000-000000000000');
  for (const other of [ben, cleo, dora, emil]) {
    const got = await other.request('GET', `/api/threads/${thread}`);
    assert.deepEqual(got, absent, `${other.name} before it is shared`);
  }
  const shared = JSON.parse((await ana.request('POST', `/api/threads/${thread}/shares`, { role: 'approver', rights: ['read', 'decide'] })).text);
  assert.deepEqual([shared.role, shared.rights], ['approver', ['read', 'decide']]);

  // Ben opens it from his list; Emil has the same role in the other tenant, Cleo another one in this.
  await ben.page.reload();
  await ben.page.locator('#threads a', { hasText: 'ana' }).click();
  await ben.page.locator('#talk').getByText('text from ana').waitFor();
  for (const other of [cleo, dora, emil]) {
    assert.deepEqual(await other.request('GET', `/api/threads/${thread}`), absent, other.name);
    assert.deepEqual(await other.request('POST', `/api/threads/${thread}/shares`, { user: other.name, rights: ['read'] }), absent, other.name);
    assert.equal((await other.get('/api/threads')).threads.length, 1);
  }
  assert.equal((await ben.request('DELETE', `/api/threads/${thread}`)).status, 403);

  // The question comes up in Ben's page while Ana's agent waits.
  await ana.send('ask');
  await ben.page.locator('.question').waitFor();
  await ben.page.locator('.question button[data-kind="allow_once"]').click();
  await ana.status('finished');
  const approvals = await ana.get(`/api/approvals?thread_id=${encodeURIComponent(ana.thread)}`);
  assert.deepEqual(approvals.approvals.map((a) => [a.status, a.decided_by]), [['APPROVED', 'ben']]);

  // Ben may not write; after the end of the share his stream ends, and the thread is as absent.
  const written = await ben.request('POST', '/api/agui/chat', { threadId: thread, protocolVersion: '1.0', runId: 'r', state: {}, tools: [], context: [], forwardedProps: {}, messages: [{ id: 'm', role: 'user', content: 'text' }] });
  assert.equal(written.status, 403, written.text);
  const tail = await follow(ben, `/api/threads/${thread}/events`);
  await ana.request('DELETE', `/api/threads/${thread}/shares/${shared.id}`);
  console.log(`un-shared: the stream ended after ${await tail.ended} ms`);
  assert.ok(await tail.ended < revokedWithin);
  assert.deepEqual(await ben.request('GET', `/api/threads/${thread}`), absent, 'ben after it is shared no more');
});

/** follow opens a stream as a person and says when it has ended. */
async function follow(person, path, headers = {}) {
  const cookie = (await person.context.cookies(program.url)).map((c) => `${c.name}=${c.value}`).join('; ');
  const response = await fetch(program.url + path, { headers: { Accept: 'text/event-stream', ...(headers.Authorization ? {} : { Cookie: cookie, ...person.secret }), ...headers } });
  assert.equal(response.status, 200, await (response.ok ? '' : response.text()));
  const began = Date.now();
  const ended = (async () => {
    try {
      for await (const _ of response.body);
    } catch {
      // it was cut
    }
    return Date.now() - began;
  })();
  return { ended };
}

/** bearer gets an access token for the API by the code flow of another client, in the person's browser. */
async function bearer(person) {
  const verifier = randomBytes(32).toString('base64url');
  const query = new URLSearchParams({
    client_id: script.id, response_type: 'code', redirect_uri: script.redirect, scope: 'openid profile', resource: audience, state: 's',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
  });
  const page = await person.context.newPage();
  const back = new Promise((resolve) => page.on('request', (r) => r.url().startsWith(script.redirect) && resolve(r.url())));
  await page.goto(`${provider.issuer}/auth?${query}`);
  await page.getByRole('button', { name: 'Continue' }).click();
  const code = new URL(await back).searchParams.get('code');
  await page.close();
  const response = await fetch(`${provider.issuer}/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'authorization_code', client_id: script.id, code, redirect_uri: script.redirect, code_verifier: verifier, resource: audience }),
  });
  return (await response.json()).access_token;
}

const as = (token) => ({ Authorization: `Bearer ${token}` });

test('a bearer token of the provider is accepted, and no forged one; invented keys make no requests', async () => {
  const { dora } = team;
  dora.token = await bearer(dora);
  const api = (token) => fetch(`${program.url}/api/threads`, { headers: as(token) });
  const got = await (await api(dora.token)).json();
  assert.deepEqual(got.threads.map((t) => t.id), [dora.thread]);
  const [head, body, signature] = dora.token.split('.');
  const asked = provider.keyRequests;
  const claims = JSON.parse(Buffer.from(body, 'base64url'));
  const forged = (header, changed) => [header, Buffer.from(JSON.stringify({ ...claims, ...changed })).toString('base64url'), signature].join('.');
  const none = Buffer.from('{"alg":"none"}').toString('base64url');
  for (const bad of [forged(head, { sub: 'emil' }), forged(head, { aud: 'other' }), `${none}.${body}.`,
    ...Array.from({ length: 20 }, (_, i) => forged(Buffer.from(`{"alg":"RS256","kid":"invented-${i}"}`).toString('base64url'), {}))]) {
    assert.equal((await api(bad)).status, 401, bad);
  }
  assert.ok(provider.keyRequests - asked <= 1, `${provider.keyRequests - asked} requests for keys`);
});

test('a revoked person\'s stream and socket end, and the session and token are refused', async () => {
  const { ana, cleo } = team;
  const token = await bearer(ana);
  const streams = [await follow(ana, `/api/threads/${ana.thread}/events`), await follow(ana, `/api/threads/${ana.thread}/events`, as(token))];
  const closed = ana.page.evaluate(() => new Promise((resolve) => {
    const began = performance.now();
    const socket = new WebSocket(`${location.origin.replace('http', 'ws')}/ws/client`);
    socket.onopen = () => { window.opened = true; };
    socket.onclose = () => resolve(performance.now() - began);
  }));
  await ana.page.waitForFunction(() => window.opened);
  const revoked = await cleo.request('DELETE', '/api/tokens?user=ana');
  assert.ok(revoked.status < 300, revoked.text);
  const took = [...await Promise.all(streams.map((s) => s.ended)), await closed].map(Math.round);
  console.log(`revoked: streams and socket ended after ${took.join(', ')} ms`);
  assert.ok(Math.max(...took) < revokedWithin, `${took}`);
  assert.equal((await ana.request('GET', '/api/threads')).status, 401);
  assert.equal((await fetch(`${program.url}/api/threads`, { headers: as(token) })).status, 401);
});

test('signing out ends the session here and at the provider', async () => {
  const { emil } = team;
  const session = (await emil.context.cookies(program.url)).find((c) => c.name.includes('aqueduct_session'));
  await emil.page.getByRole('button', { name: 'Sign out' }).click();
  await emil.page.waitForURL((url) => url.origin === provider.issuer);
  await emil.page.getByRole('button', { name: /sign me out/i }).click();
  await emil.page.waitForURL((url) => url.origin === program.url);
  await emil.page.getByRole('link', { name: 'Sign in' }).waitFor();
  const replayed = await fetch(`${program.url}/api/threads`, { headers: { Cookie: `${session.name}=${session.value}`, ...emil.secret } });
  assert.equal(replayed.status, 401, 'the cookie is good after signing out');
});
