// The page at "/" in a real browser, behind real proxies: SITES holds their URLs as JSON.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';

import { launch, openPage } from '../judges/lib/chromium.mjs';

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

for (const [name, url] of Object.entries(JSON.parse(process.env.SITES))) {
  test(`${name}: the page loads, a prompt is answered, a question is clicked`, async () => {
    const { page, context, trouble } = await openPage(browser, url, { ignoreHTTPSErrors: true });
    await page.getByLabel('Message').fill('ask');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('button', { name: 'Allow once' }).click();
    await page.locator('#talk').getByText(/You allowed it/).waitFor({ timeout: 15_000 });
    await page.reload();
    await page.locator('#talk').getByText(/You allowed it/).waitFor({ timeout: 15_000 });
    await context.close();
    assert.deepEqual(trouble, [], 'the page complained');
  });
}

test('a page of another port is refused, and the refusal says what to set', async () => {
  const stranger = http.createServer((req, res) => res.setHeader('content-type', 'text/html').end('<!doctype html>')).unref();
  await new Promise((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${stranger.address().port}`;
  const { page, context } = await openPage(browser, origin);
  const target = `${Object.values(JSON.parse(process.env.SITES)).find((url) => url.startsWith('http:'))}/api/threads`;
  // The page may send this and not read the answer; the browser's developer tools may.
  const [response] = await Promise.all([
    page.waitForResponse(target, { timeout: 10_000 }),
    page.evaluate((url) => fetch(url, { method: 'POST', mode: 'no-cors', body: '{}' }), target),
  ]);
  assert.equal(response.status(), 403);
  await context.close();
  const { code, detail } = await (await fetch(target, { headers: { origin } })).json();
  assert.equal(code, 'forbidden_origin');
  assert.ok(detail.endsWith(`aqueduct serve --cors-origin ${origin}`), detail);
});
