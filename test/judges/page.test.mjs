// The page at "/" in a real browser.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { launch, openPage } from './lib/chromium.mjs';
import { base, decide, openApprovals, until } from './lib/server.mjs';
import { serve } from './lib/static.mjs';
import { fetch } from './lib/token.mjs';

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

class Chat {
  static async open(hash = '') {
    const chat = new Chat();
    Object.assign(chat, await openPage(browser, `${base}/${hash}`));
    return chat;
  }

  async send(text) {
    await this.page.getByLabel('Message').fill(text);
    await this.page.getByRole('button', { name: 'Send' }).click();
  }

  async shows(words, options) {
    await this.page.locator('#talk').getByText(words).last().waitFor({ timeout: 15_000, ...options });
  }

  async click(label) {
    await this.page.getByRole('button', { name: label, exact: true }).click();
  }

  /** status waits for how the Run is: finished, interrupt, cancelled, error. */
  async status(want) {
    await this.page.locator(`#talk[data-run="${want}"]`).waitFor({ timeout: 15_000 });
  }

  get threadId() {
    return decodeURIComponent(new URL(this.page.url()).hash.slice(1));
  }

  /** close also fails on a policy violation or an exception: both end in the console. */
  async close() {
    await this.context.close();
    assert.deepEqual(this.trouble, [], 'the page complained');
  }
}

test('a prompt is answered, and every event is listed with its seq', async () => {
  const chat = await Chat.open();
  await chat.send('think');
  await chat.shows('I thought about it first: forty-two.');
  await chat.shows(/The question is short/);
  await chat.status('finished');
  const seqs = await chat.page.locator('#events li').evaluateAll((items) => items.map((i) => i.dataset.seq));
  assert.deepEqual(seqs, seqs.map((_, i) => String(i + 1)));
  const first = await chat.page.locator('#events li summary').first().textContent();
  assert.equal(first, 'RUN_STARTED');
  await chat.page.locator('#threads a[aria-current]').waitFor();
  await chat.close();
});

test('a new thread is for the agent that is picked, and keeps it', async () => {
  const chat = await Chat.open();
  const picker = chat.page.getByLabel('Agent', { exact: true });
  await picker.waitFor();
  assert.deepEqual(await picker.locator('option').evaluateAll((options) => options.map((o) => o.value)), ['', 'demo', 'second']);
  await picker.selectOption('second');
  await chat.send('burst text, please');
  await chat.shows(/word 1 of the answer/);
  await picker.waitFor({ state: 'hidden' });
  const thread = await (await fetch(`${base}/api/threads/${chat.threadId}`)).json();
  assert.equal(thread.agentId, 'second');
  await chat.close();
});

test('tools, state and activities are drawn', async () => {
  const chat = await Chat.open();
  await chat.send('all');
  await chat.status('interrupt');
  assert.match(await chat.page.locator('#state').textContent(), /"progress": 50/);
  await chat.shows('相关股票');
  await chat.page.locator('.call', { hasText: 'get_weather' }).click();
  await chat.shows(/"temp": 25/);
  await chat.click('舒适型');
  await chat.status('finished');
  await chat.shows(/根据您的偏好 舒适型/);
  assert.match(await chat.page.locator('#state').textContent(), /"progress": 100/);
  await chat.close();
});

test('a permission is answered by its buttons', async () => {
  const chat = await Chat.open();
  await chat.send('ask');
  await chat.shows('Delete the folder build?');
  await chat.shows('delete_folder');
  await chat.click('Allow once');
  await chat.shows(/You allowed it/);
  await chat.status('finished');
  assert.equal(await chat.page.locator('.question').count(), 0);
  await chat.close();
});

test('two permissions are answered one by one', async () => {
  const chat = await Chat.open();
  await chat.send('asks');
  await chat.shows('Pay the invoice of 120 euros?');
  assert.equal(await chat.page.locator('.question').count(), 2);
  await chat.page.locator('.question', { hasText: 'Send the mail' }).getByRole('button', { name: 'Allow once' }).click();
  await until('one is left', async () => (await chat.page.locator('.question').count()) === 1);
  await chat.page.locator('.question', { hasText: 'Pay the invoice' }).getByRole('button', { name: 'Reject' }).click();
  await chat.shows(/took care of the mail.*left the invoice alone/);
  await chat.close();
});

test('a form is filled in', async () => {
  const chat = await Chat.open();
  await chat.send('prefs');
  await chat.page.getByLabel('Class').selectOption('comfort');
  await chat.page.getByLabel('Days').fill('4');
  await chat.click('Answer');
  await chat.shows(/Noted: .*"comfort".*4/);
  await chat.close();
});

test('a question can be skipped', async () => {
  const chat = await Chat.open();
  await chat.send('prefs');
  await chat.click('Skip');
  await chat.shows('Then I will choose for you: economy.');
  await chat.close();
});

test('a reload in mid-answer reconnects, and stop stops', async () => {
  const chat = await Chat.open();
  await chat.send('slow');
  await chat.shows(/^1 /);
  await chat.page.reload();
  await chat.shows(/^1 2 3 /);
  await chat.click('Stop');
  await chat.status('cancelled');
  await chat.send('text');
  await chat.shows(/miss nothing/);
  await chat.close();
});

test('a reload at a question shows it again', async () => {
  const chat = await Chat.open();
  await chat.send('ask');
  await chat.shows('Delete the folder build?');
  await chat.page.reload();
  await chat.click('Reject');
  await chat.shows(/You said no/);
  await chat.page.reload();
  await chat.shows(/You said no/);
  assert.equal(await chat.page.locator('.message.user').count(), 1);
  await chat.close();
});

test('a reload lists the events of the last Run again', async () => {
  const chat = await Chat.open();
  await chat.send('text');
  await chat.status('finished');
  const seqs = () => chat.page.locator('#events li').evaluateAll((items) => items.map((i) => i.dataset.seq).filter(Boolean));
  const before = await seqs();
  await chat.page.reload();
  await until('the events are back', async () => (await seqs()).length === before.length);
  assert.deepEqual(await seqs(), before);
  await chat.close();
});

test('an answer given elsewhere is followed', async () => {
  const chat = await Chat.open();
  await chat.send('ask');
  await chat.shows('Delete the folder build?');
  const [approval] = await openApprovals(chat.threadId);
  await decide(approval.approval_id, { option_id: 'once' });
  await chat.shows(/You allowed it/);
  await chat.close();
});

test('two tabs: the question leaves both when one answers', async () => {
  const one = await Chat.open();
  await one.send('ask');
  await one.shows('Delete the folder build?');
  const two = await Chat.open(`#${one.threadId}`);
  await two.shows('Delete the folder build?');
  await one.click('Reject');
  await two.shows(/You said no/);
  await until('the card is gone', async () => (await two.page.locator('.question').count()) === 0);
  await one.close();
  await two.close();
});

test('a prompt in another tab shows up in this one', async () => {
  const one = await Chat.open();
  await one.send('text');
  await one.status('finished');
  const two = await Chat.open(`#${one.threadId}`);
  await two.status('finished');
  await one.send('think');
  await two.shows('I thought about it first: forty-two.');
  await one.shows('I thought about it first: forty-two.');
  assert.equal(await two.page.locator('.message.user').count(), 2);
  await one.close();
  await two.close();
});

test('a line that breaks in mid-answer is taken up again', async () => {
  const site = await serve(fileURLToPath(new URL('../../web/static', import.meta.url)), base);
  try {
    const { page, context } = await openPage(browser, site.url);
    await page.getByLabel('Message').fill('slow');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText(/^1 2 /).waitFor();
    site.drop();
    await page.locator('#connection[data-status="waiting"]').waitFor();
    await page.locator('#connection[data-status="live"]').waitFor();
    await page.getByText(/^1 2 3 4 /).waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.locator('#talk[data-run="cancelled"]').waitFor();
    assert.equal(await page.locator('.message.assistant').count(), 1);
    await context.close();
  } finally {
    await site.close();
  }
});

test('a thread opens from the list', async () => {
  const chat = await Chat.open();
  await chat.send('text');
  await chat.status('finished');
  const id = chat.threadId;
  await chat.click('New thread');
  await chat.shows(/Write something to begin/);
  await chat.page.locator(`#threads a[href="#${id}"]`).click();
  await chat.shows(/miss nothing/);
  await chat.close();
});

test('an error is told', async () => {
  const chat = await Chat.open();
  await chat.send('error');
  await chat.shows('The demo agent failed on purpose.');
  await chat.status('error');
  await chat.close();
});

test('S30: text stays text', async () => {
  const evil = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>';
  const chat = await Chat.open();
  await chat.send(evil);
  await chat.shows(evil);
  await chat.status('finished');
  await chat.page.reload();
  await chat.shows(evil);
  assert.equal(await chat.page.locator('#talk img, #talk script').count(), 0);
  assert.equal(await chat.page.title(), 'Aqueduct');
  await chat.close();
});

test('the policy is sent, and blocks what it should', async () => {
  const response = await fetch(`${base}/`);
  const policy = response.headers.get('content-security-policy');
  for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]) {
    assert.ok(policy.includes(rule), policy);
  }
  assert.doesNotMatch(policy, /unsafe/);
  const { page, context, trouble } = await openPage(browser, `${base}/`);
  await page.evaluate(() => {
    const s = document.createElement('script');
    s.textContent = 'document.title = "owned"';
    document.body.append(s);
  });
  assert.equal(await page.title(), 'Aqueduct');
  assert.match(trouble.join(), /Content Security Policy/);
  await context.close();
});

for (const [name, options] of [['dark', { colorScheme: 'dark' }], ['narrow', { viewport: { width: 380, height: 720 } }]]) {
  test(`${name}: everything can be reached`, async () => {
    const { page, context, trouble } = await openPage(browser, `${base}/`, options);
    await page.getByLabel('Message').fill('ask');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('button', { name: 'Allow once' }).click();
    await page.getByText(/You allowed it/).waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
    assert.equal(wide, false, 'the page scrolls sideways');
    assert.deepEqual(trouble, []);
    await context.close();
  });
}

test('an agent that is not there is refused in words, and the default does not answer for it', async () => {
  const chat = await Chat.open('?agent=nobody');
  await chat.shows('There is no agent "nobody" here.');
  assert.equal(await chat.page.getByLabel('Agent', { exact: true }).inputValue(), 'nobody');
  await chat.page.getByLabel('Agent', { exact: true }).selectOption('second');
  await chat.send('burst text, please');
  await chat.shows(/word 1 of the answer/);
  assert.equal((await (await fetch(`${base}/api/threads/${chat.threadId}`)).json()).agentId, 'second');
  await chat.close();
});
