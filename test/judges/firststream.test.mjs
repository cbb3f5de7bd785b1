// The link that "make run" prints (LINK), in a real browser.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './lib/chromium.mjs';

const link = process.env.LINK;
const code = new URL(link).hash.split('=')[1];
const dialogText = 'This server wants an access token.';
let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

test('the link signs the browser in, and leaves the address bar and the history', async () => {
  const { page, context, trouble } = await openPage(browser, link, { signIn: false });
  await page.getByLabel('Message').fill('text');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('#talk').getByText(/miss nothing/).waitFor();
  assert.equal(page.url().includes('sign-in'), false, page.url());
  await page.reload();
  await page.locator('#talk').getByText(/miss nothing/).waitFor();
  assert.equal(await page.getByLabel(dialogText).isVisible(), false);
  await page.goBack(); // to what was before the link: nothing
  assert.equal(page.url().includes(code), false, page.url());
  const cookies = await context.cookies();
  assert.ok(cookies.some((c) => c.httpOnly && c.sameSite === 'Strict'), JSON.stringify(cookies));
  assert.equal(JSON.stringify(cookies).includes(code), false, 'the cookie is the code');
  assert.deepEqual(trouble, [], 'the page complained');
  await context.close();
});

test('it works once: another browser is told so, and asked for the token', async () => {
  const { page, context } = await openPage(browser, link, { signIn: false });
  await page.getByLabel(dialogText).waitFor();
  await page.getByRole('dialog').getByText(/used before/).waitFor();
  assert.equal(page.url().includes('sign-in'), false, page.url());
  await context.close();
});

test('opened in a page that is there, it signs that page in or says why not', async () => {
  const { page, context } = await openPage(browser, new URL(link).origin, { signIn: false });
  await page.getByLabel(dialogText).waitFor();
  await page.goto(link); // the fragment alone changes, so nothing is loaded again
  await page.getByRole('dialog').getByText(/used before/).waitFor();
  assert.equal(page.url().includes('sign-in'), false, page.url());
  await context.close();
});
