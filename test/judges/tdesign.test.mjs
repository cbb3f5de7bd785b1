// The real TDesign Chat in a real browser: examples/tdesign, built, behind a plain server.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { launch, openPage } from './lib/chromium.mjs';
import { base, cancelRun, lastRun, until } from './lib/server.mjs';
import { serve } from './lib/static.mjs';

const dist = fileURLToPath(new URL('../../examples/tdesign/dist', import.meta.url));

let browser;
let site;

before(async () => {
  assert.ok(existsSync(`${dist}/index.html`), 'examples/tdesign is not built: run "make setup-tdesign"');
  site = await serve(dist, base);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await site?.close();
});

/** Chat drives one page as a person does. */
class Chat {
  static async open() {
    const chat = new Chat();
    Object.assign(chat, await openPage(browser, site.url));
    await chat.ready();
    return chat;
  }

  async ready() {
    await this.page.locator('t-chat-sender textarea').waitFor();
  }

  async send(text) {
    const box = this.page.locator('t-chat-sender textarea');
    await box.fill(text);
    await box.press('Enter');
  }

  /** shows waits for words anywhere in the talk; Playwright looks into shadow trees. */
  async shows(words, options) {
    await this.page.getByText(words).last().waitFor({ timeout: 15_000, ...options });
  }

  async click(label) {
    await this.page.getByRole('button', { name: label, exact: true }).last().click();
  }

  /** idle waits until the sender offers to send again. */
  async idle() {
    await this.page.waitForFunction(() => {
      const last = [...document.querySelectorAll('t-chat-item')].at(-1);
      return last && !document.querySelector('t-chat-sender')?.props?.loading;
    }, null, { timeout: 15_000 });
  }

  get threadId() {
    return this.page.evaluate(() => localStorage.getItem('aqueduct-tdesign-thread'));
  }

  async close() {
    await this.context.close();
    assert.deepEqual(this.trouble, [], 'the page complained');
  }
}

test('text streams, thoughts show, two turns', async () => {
  const chat = await Chat.open();
  await chat.send('think');
  await chat.shows('I thought about it first: forty-two.');
  await chat.shows(/The question is short/, { state: 'attached' });
  await chat.idle();
  await chat.send('text');
  await chat.shows(/you may close the page at any moment and miss nothing/);
  await chat.shows('I thought about it first: forty-two.');
  await chat.close();
});

test('a permission is clicked and the chat goes on', async () => {
  const chat = await Chat.open();
  await chat.send('ask');
  await chat.shows('Delete the folder build?');
  await chat.click('Allow once');
  await chat.shows(/You allowed it, so I took care of the folder build/);
  await chat.idle();
  await chat.send('ask');
  await chat.page.getByRole('button', { name: 'Reject', exact: true }).last().click();
  await chat.shows(/You said no, so I left the folder build alone/);
  await chat.close();
});

test('two permissions come one after the other', async () => {
  const chat = await Chat.open();
  await chat.send('asks');
  await chat.shows('Send the mail to Ada?');
  assert.equal(await chat.page.getByText('Pay the invoice of 120 euros?').count(), 0);
  await chat.click('Allow once');
  await chat.shows('Pay the invoice of 120 euros?');
  await chat.click('Reject');
  await chat.shows(/took care of the mail.*left the invoice alone/);
  await chat.close();
});

test('the travel planner: weather, state, activity, preferences', async () => {
  const chat = await Chat.open();
  await chat.send('all');
  await chat.shows('Weather in 北京');
  await chat.shows('25 °C');
  await chat.shows('相关股票');
  await chat.shows('100');
  await chat.shows('State: plan_task', { state: 'attached' });
  await chat.click('舒适型');
  await chat.shows(/推荐以下行程/);
  await chat.close();
});

test('an activity is worked off', async () => {
  const chat = await Chat.open();
  await chat.send('activity');
  await chat.shows('Tidy the workshop');
  await chat.shows('All of it is done.');
  await chat.shows('Rest');
  assert.equal(await chat.page.locator('.plan').count(), 1, 'drawn twice');
  await chat.close();
});

test('stop stops the agent too', async () => {
  const chat = await Chat.open();
  await chat.send('slow');
  await chat.shows(/^1 /);
  await chat.page.locator('t-chat-sender').getByRole('button').last().click();
  const threadId = await chat.threadId;
  await until('the Turn ends', async () => (await lastRun(threadId)).status === 'CANCELLED');
  await chat.idle();
  await chat.send('text');
  await chat.shows(/miss nothing/);
  await chat.close();
});

test('a reload fills the history, and an open question can still be answered', async () => {
  const chat = await Chat.open();
  await chat.send('think');
  await chat.shows('forty-two');
  await chat.idle();
  await chat.send('ask');
  await chat.shows('Delete the folder build?');
  await chat.page.reload();
  await chat.ready();
  await chat.shows('forty-two');
  await chat.shows(/The question is short/, { state: 'attached' });
  await chat.shows('Delete the folder build?');
  await chat.click('Allow once');
  await chat.shows(/You allowed it/);
  await chat.page.reload();
  await chat.ready();
  await chat.shows(/You allowed it/);
  await chat.close();
});

test('a reload while the agent works goes on live', async () => {
  const chat = await Chat.open();
  await chat.send('slow');
  await chat.shows(/^1 /);
  await chat.page.reload();
  await chat.ready();
  await chat.shows(/^1 2 3 /);
  await cancelRun((await lastRun(await chat.threadId)).id);
  await chat.idle();
  await chat.close();
});

test('an error is told in words, and the chat goes on', async () => {
  const chat = await Chat.open();
  await chat.send('error');
  await chat.shows('The demo agent failed on purpose.');
  await chat.shows(/This begins well/);
  await chat.idle();
  await chat.send('text');
  await chat.shows(/miss nothing/);
  await chat.close();
});
