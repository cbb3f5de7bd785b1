// The page where the server wants a token (TOKEN): asked for once, kept as a cookie.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch, openPage } from './lib/chromium.mjs';
import { base } from './lib/server.mjs';
import { token } from './lib/token.mjs';

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

test('the token is asked for, kept from scripts, and not asked for again', async () => {
  const { page, context } = await openPage(browser, `${base}/`, { signIn: false });
  const field = page.getByLabel('This server wants an access token.');
  await field.fill('not the token at all');
  await page.getByRole('button', { name: 'Go on' }).click();
  await page.getByRole('dialog').getByRole('alert').waitFor();
  await field.fill(token);
  await page.getByRole('button', { name: 'Go on' }).click();
  await field.waitFor({ state: 'hidden' });

  await page.getByLabel('Message').fill('text');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('#talk').getByText(/miss nothing/).waitFor();

  await page.reload();
  await page.locator('#talk').getByText(/miss nothing/).waitFor();
  assert.equal(await field.isVisible(), false);
  const seen = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href]));
  assert.equal(seen.includes(token), false, 'a script can read the token');
  const cookies = await context.cookies();
  assert.ok(cookies.length > 0 && cookies.every((c) => c.httpOnly && c.sameSite === 'Strict'), JSON.stringify(cookies));
  assert.equal(JSON.stringify(cookies).includes(token), false, 'the cookie is the token');
  await context.close();
});
