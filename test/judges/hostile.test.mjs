// The page at "/" with an agent that wants to get into it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './lib/chromium.mjs';
import { Stranger, stream } from './lib/hostile.mjs';
import { base, newId } from './lib/server.mjs';

let browser;
let stranger;

before(async () => {
  [browser, stranger] = await Promise.all([launch(), Stranger.start()]);
});

after(async () => {
  await browser?.close();
  stranger?.close();
});

test('S61: a hostile title of an activity draws as text', async () => {
  const { page, context, trouble } = await openPage(browser, `${base}/`);
  await page.route('**/api/agui/chat*', (route) => {
    const { threadId } = JSON.parse(route.request().postData());
    return route.fulfill({ contentType: 'text/event-stream', body: stream(threadId, stranger.url) });
  });
  await page.getByLabel('Message').fill('hello');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('after it all').waitFor();
  await page.getByText('⟨U+202E⟩').waitFor();
  assert.equal(await page.locator('#talk .message.activity').count(), 4);
  assert.equal(await page.locator('#talk img').count(), 0);
  assert.match(await page.locator('#talk').innerText(), /<img src=x onerror=/);
  assert.equal(await page.title(), 'Aqueduct');
  assert.deepEqual(stranger.asked, []);
  assert.deepEqual(trouble.filter((words) => !/404/.test(words)), []); // the thread of the answer is none of the server's
  await context.close();
});

test('S57: a picture of another server is a link until it is clicked', async () => {
  const thread = newId('hostile');
  const content = [{ type: 'text', text: 'look' }, { type: 'image', source: { type: 'url', value: `${stranger.url}/cat (1).png` }, metadata: { filename: 'a cat' } }];
  const { page, context, trouble } = await openPage(browser, `${base}/`);
  const status = await page.evaluate(([threadId, parts]) => fetch('/api/agui/chat', {
    method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Aqueduct-Page': localStorage.aqueduct_page },
    body: JSON.stringify({ threadId, runId: threadId, protocolVersion: '1.0', state: {}, messages: [{ id: 'u', role: 'user', content: parts }] }),
  }).then((r) => r.text().then(() => r.status)), [thread, content]);
  assert.equal(status, 200);
  await page.goto(`${base}/#${thread}`);
  await page.reload();
  const link = page.getByRole('link', { name: /a cat/ });
  await link.waitFor();
  assert.equal(await link.getAttribute('href'), `${stranger.url}/cat%20%281%29.png`);
  assert.match(await link.getAttribute('rel'), /noreferrer/);
  assert.deepEqual(stranger.asked, []);
  const [opened] = await Promise.all([context.waitForEvent('page'), link.click()]);
  await opened.waitForLoadState();
  assert.deepEqual(stranger.asked.filter((path) => path !== '/favicon.ico'), ['/cat%20%281%29.png']);
  assert.deepEqual(trouble, []);
  await context.close();
});
