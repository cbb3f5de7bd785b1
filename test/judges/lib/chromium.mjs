// A real Chromium, without the network it would otherwise look for.

import { execFileSync } from 'node:child_process';
import { chromium } from 'playwright-core';

import { token } from './token.mjs';

/** launch starts the Chromium of the system; CHROMIUM names another one. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM || find(),
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
    ],
  });
}

function find() {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    try {
      return execFileSync('which', [name], { encoding: 'utf8' }).trim();
    } catch {
      // not under this name
    }
  }
  throw new Error('no Chromium: run "make setup-chromium", or name one in CHROMIUM');
}

/**
 * openPage opens a page in a browser profile of its own and notes all that goes wrong. The profile is signed in to the
 * page's server, as by its dialog; signIn: false leaves that to the test.
 */
export async function openPage(browser, url, { signIn = true, ...options } = {}) {
  const context = await browser.newContext(options);
  if (signIn) {
    const answer = await context.request.post(new URL('/api/session', url).href, { data: { token } });
    const secret = answer.headers()['x-aqueduct-page'];
    await context.addInitScript(([origin, value]) => {
      if (value && location.origin === origin) localStorage.setItem('aqueduct_page', value);
    }, [new URL(url).origin, secret]);
  }
  const page = await context.newPage();
  const trouble = [];
  page.on('console', (m) => m.type() === 'error' && trouble.push(m.text()));
  page.on('pageerror', (e) => trouble.push(String(e)));
  await page.goto(url, { timeout: 120_000 }); // a development server builds the page now
  return { page, context, trouble };
}
