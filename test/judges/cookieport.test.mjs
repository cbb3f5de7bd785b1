// A program on another port of the host name, as a coding agent starts all day, beside the page in a real browser: it is sent the
// session's cookie, and can do nothing with it. The page works on.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';

import { launch, openPage } from './lib/chromium.mjs';
import { Program } from './lib/program.mjs';
import { token } from './lib/token.mjs';

let browser;
let program;
let chat;
let neighbour; // { url, cookies }: a web server on another port, and what browsers sent it

before(async () => {
  browser = await launch();
  program = await Program.start('2ms');
  neighbour = await listen();
  const opened = await openPage(browser, `${program.url}/`, { signIn: false });
  chat = { ...opened, url: program.url };
  await signIn(chat.page);
});

after(async () => {
  await browser?.close();
  await program?.close();
  neighbour?.server.close();
});

async function listen() {
  const cookies = [];
  const server = http.createServer((request, response) => {
    cookies.push(request.headers.cookie ?? '');
    response.writeHead(200, { 'Content-Type': 'text/html' }).end('<title>a development server</title>');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, cookies, url: `http://127.0.0.1:${server.address().port}/` };
}

async function signIn(page) {
  await page.getByLabel('This server wants an access token.').fill(token);
  await page.getByRole('button', { name: 'Go on' }).click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
}

async function say(page, text, answer) {
  await page.getByLabel('Message').fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('#talk').getByText(answer).last().waitFor({ timeout: 30_000 });
}

/** stolen is the session's cookie as the neighbour got it. */
async function stolen() {
  const page = await chat.context.newPage();
  await page.goto(neighbour.url);
  const seen = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]));
  assert.equal(seen, '["",{},{}]', 'the neighbour reads what the page keeps');
  await page.close();
  const cookie = neighbour.cookies.findLast((c) => c.includes('aqueduct_session'));
  assert.ok(cookie, 'this browser keeps ports apart: the test shows nothing');
  return cookie;
}

/** until waits for what something else brings about. */
async function until(what, check) {
  for (const end = Date.now() + 30_000; ;) {
    const value = await check();
    if (value) return value;
    assert.ok(Date.now() < end, `${what}: not within 30 s`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** asks sends a request as the neighbour does. */
async function asks(cookie, method, path, body, more = {}) {
  const headers = { cookie, origin: program.url, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json', ...more };
  const response = await fetch(program.url + path, { method, headers, body: body && JSON.stringify(body) });
  await response.body?.cancel();
  return response.status;
}

/** closes gives how a socket that the neighbour opens with the cookie ends. */
function closes(cookie, path) {
  const headers = { cookie, origin: program.url, connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' };
  return new Promise((resolve, reject) => {
    const request = http.get(program.url + path, { headers });
    request.on('response', (response) => resolve(`refused with ${response.statusCode}`));
    request.on('upgrade', (_, socket) => {
      let got = Buffer.alloc(0);
      socket.on('data', (bytes) => { got = Buffer.concat([got, bytes]); });
      socket.on('close', () => resolve(got.toString('latin1')));
      socket.on('error', reject);
    });
    request.on('error', reject);
  });
}

test('the cookie alone mints no token, reads nothing, decides nothing and opens no socket', async () => {
  await say(chat.page, 'ask', 'Delete the folder build?');
  const open = await until('a question is open', async () => {
    const response = await fetch(`${program.url}/api/approvals?status=PENDING`, { headers: { authorization: `Bearer ${token}` } });
    return (await response.json()).approvals[0];
  });
  const cookie = await stolen();
  const tries = {
    'a token': await asks(cookie, 'POST', '/api/tokens', { type: 'user', user: 'eve', roles: ['admin'], ttl_seconds: 7776000 }),
    'an API key': await asks(cookie, 'POST', '/api/service_accounts', { name: 'eve', roles: ['admin'] }),
    'a decision': await asks(cookie, 'POST', `/api/approvals/${open.approval_id}/decision`, { approved: true }),
    'a ticket': await asks(cookie, 'POST', '/api/tickets', { path: '/ws/permissions' }),
    'the inbox': await asks(cookie, 'GET', '/api/approvals'),
    'a prompt': await asks(cookie, 'POST', '/api/agui/chat', { prompt: 'text' }),
    'the tools over MCP': await asks(cookie, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list' }, { accept: 'application/json, text/event-stream' }),
    'a guessed secret': await asks(cookie, 'GET', '/api/threads', undefined, { 'x-aqueduct-page': '0'.repeat(64) }),
    'signing out': await asks(cookie, 'DELETE', '/api/session'),
  };
  assert.deepEqual(Object.entries(tries).filter(([, status]) => status !== 401), []);
  await Promise.all(['/ws/permissions', '/agent_backend/ws/session_id', '/ws/client'].map(async (path) => {
    assert.match(await closes(cookie, path), /refused with 401|unauthorized: .*ticket=/, path);
  }));
});

test('the page itself goes on: its stream, a second tab, a reload', async () => {
  await chat.page.getByRole('button', { name: 'New thread' }).click();
  await say(chat.page, 'text', /miss nothing/);
  const second = await chat.context.newPage();
  await second.goto(chat.page.url());
  await second.locator('#talk').getByText(/miss nothing/).waitFor();
  await say(second, 'think', /forty-two/);
  await chat.page.locator('#talk').getByText(/forty-two/).last().waitFor({ timeout: 30_000 }); // what the other tab began
  await second.close();
  await chat.page.reload();
  await chat.page.locator('#talk').getByText(/forty-two/).last().waitFor();
});

test('what can send no header has a ticket: an EventSource, a WebSocket, a picture, a download', async () => {
  const seen = await chat.page.evaluate(async () => {
    const page = { 'X-Aqueduct-Page': localStorage.getItem('aqueduct_page'), 'Content-Type': 'application/json' };
    const ticketFor = async (path) => {
      const response = await fetch('/api/tickets', { method: 'POST', headers: page, body: JSON.stringify({ path }) });
      return (await response.json()).url;
    };
    const threads = await (await fetch('/api/threads', { headers: page })).json();
    const events = `/api/threads/${encodeURIComponent(threads.threads[0].id)}/events`;
    const listens = (url) => new Promise((resolve) => {
      const source = new EventSource(url);
      source.onmessage = () => { source.close(); resolve('opens'); };
      source.onerror = () => { source.close(); resolve('refused'); };
    });
    const opens = (url) => new Promise((resolve) => {
      const socket = new WebSocket(`ws://${location.host}${url}`);
      socket.onopen = () => socket.send(JSON.stringify({ type: 'get_agent_status', data: {} }));
      socket.onmessage = ({ data }) => { socket.close(); resolve(JSON.parse(data).type); };
      socket.onclose = ({ code, reason }) => resolve(`${code} ${reason}`);
    });
    const shows = (url) => new Promise((resolve) => {
      const picture = new Image();
      picture.onload = () => resolve('opens');
      picture.onerror = () => resolve('refused');
      picture.src = url;
    });
    const pixel = Uint8Array.from(atob('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='), (c) => c.charCodeAt(0));
    const stored = await (await fetch('/api/attachments', { method: 'POST', headers: { ...page, 'Content-Type': 'image/png' }, body: pixel })).json();
    const socket = '/agent_backend/ws/session_id';
    const used = await ticketFor(events);
    return {
      'an EventSource': [await listens(events), await listens(used), await listens(used)],
      'a WebSocket': [await opens(socket), await opens(await ticketFor(socket)), await opens((await ticketFor('/ws/client')).replace('/ws/client', socket))],
      'a picture': [await shows(stored.url), await shows(await ticketFor(stored.url))],
      'a download': (await fetch(await ticketFor(stored.url))).status,
    };
  });
  assert.deepEqual(seen['an EventSource'], ['refused', 'opens', 'refused']);
  assert.match(seen['a WebSocket'][0], /^1008 unauthorized: .*\?ticket=/);
  assert.equal(seen['a WebSocket'][1], 'agent_status');
  assert.match(seen['a WebSocket'][2], /^1008 unauthorized/);
  assert.deepEqual(seen['a picture'], ['refused', 'opens']);
  assert.equal(seen['a download'], 200);
});

test('a page without the secret is asked to sign in again, and nothing that was typed is lost', async () => {
  const tab = await chat.context.newPage();
  await tab.goto(`${program.url}/`);
  await tab.getByRole('button', { name: 'New thread' }).click();
  await tab.evaluate(() => localStorage.clear());
  await tab.getByLabel('Message').fill('text typed before');
  await tab.getByRole('button', { name: 'Send' }).click();
  await signIn(tab);
  await tab.locator('#talk').getByText('text typed before').waitFor();
  await tab.locator('#talk').getByText(/miss nothing/).waitFor({ timeout: 30_000 });

  // Who closes the dialog finds the words in the box.
  await tab.getByRole('button', { name: 'New thread' }).click();
  await tab.evaluate(() => {
    localStorage.clear();
    document.getElementById('prompt').value = 'think of this';
    document.getElementById('compose').requestSubmit();
  });
  await tab.getByRole('dialog').waitFor();
  await tab.keyboard.press('Escape');
  await tab.waitForFunction(() => document.getElementById('prompt').value === 'think of this');

  // A tab that asks goes on when another one has signed in.
  await tab.getByRole('button', { name: 'Send' }).click();
  await tab.getByRole('dialog').waitFor();
  const other = await chat.context.newPage();
  await other.goto(`${program.url}/`);
  await signIn(other);
  await tab.locator('#talk').getByText(/forty-two/).last().waitFor({ timeout: 30_000 });
  await other.close();
  await tab.close();
});

test('the printed link signs one browser in with one click', async () => {
  const { AQUEDUCT_TOKEN_FILE: _, ...env } = process.env; // it makes a token, and prints the link
  const mine = await Program.start('2ms', [], env);
  try {
    const link = await until('the link is printed', () => mine.said.match(/http:\S+\/#sign-in=\S+/)?.[0]);
    const { page, context, trouble } = await openPage(browser, link, { signIn: false });
    await say(page, 'text', /miss nothing/);
    assert.equal(await page.getByRole('dialog').isVisible(), false);
    assert.deepEqual(trouble, []);
    assert.equal(page.url().includes('sign-in'), false);
    await context.close();
  } finally {
    await mine.close();
  }
});

test('two servers on one host do not sign each other out', async () => {
  const other = await Program.start('2ms');
  try {
    const page = await chat.context.newPage();
    await page.goto(`${other.url}/`);
    await signIn(page);
    await say(page, 'text', /miss nothing/);
    await chat.page.reload();
    await chat.page.getByRole('button', { name: 'New thread' }).click();
    await say(chat.page, 'text', /miss nothing/);
    await page.close();
  } finally {
    await other.close();
  }
});
