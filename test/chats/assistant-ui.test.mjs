// assistant-ui with @assistant-ui/react-ag-ui on Aqueduct, without anything between.

import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Chat } from './lib/chat.mjs';
import { until } from './lib/program.mjs';
import { site } from './lib/site.mjs';
import { World } from './lib/world.mjs';
import { matrix } from './matrix.mjs';

let world;
let pages;

before(async () => {
  pages = await site(fileURLToPath(new URL('dist', import.meta.url)));
  world = await World.start({ origin: pages.url });
});

after(async () => {
  await world?.stop();
  pages?.close();
});

class AssistantPage extends Chat {
  async ready() {
    await this.page.getByLabel('Message').waitFor();
  }

  /** send waits for the button as a person does: while the page looks for what goes on in the thread, it takes no message. */
  async send(text) {
    const box = this.page.getByLabel('Message');
    await box.fill(text);
    await until('the page takes messages', () => this.page.getByRole('button', { name: 'Send', exact: true }).isEnabled());
    await box.press('Enter');
  }

  transcript() {
    return this.page.evaluate(() => [...document.querySelectorAll('[data-role]')]
      .map((m) => [m.dataset.role, m.querySelector('[data-text]').innerText.trim()])
      .filter(([, text]) => text)); // thoughts, which the page does not show, are a message of their own after a reload
  }

  // Words are revealed letter by letter, also after the answer has ended.
  async idle() {
    await this.page.locator('[data-running=false]:not(:has([data-status=running]))').waitFor();
  }

  async stop() {
    await this.page.getByRole('button', { name: 'Stop' }).click();
  }

  async regenerate() {
    await this.page.getByRole('button', { name: 'Regenerate' }).last().click();
  }

  async edit(text) {
    await this.page.getByRole('button', { name: 'Edit' }).last().click();
    await this.page.getByLabel('Edited message').fill(text);
    await this.page.getByRole('button', { name: 'Save' }).click();
  }

  async attach(file) {
    const [chooser] = await Promise.all([this.page.waitForEvent('filechooser'), this.page.getByRole('button', { name: 'Attach' }).click()]);
    await chooser.setFiles(file);
    await this.page.locator('[data-attachment]').waitFor();
  }

  async picturesAre(n) {
    await until(`${n} pictures`, async () => await this.page.locator('[data-role=user] img').count() === n);
  }
}

matrix(() => ({
  world,
  async open(threadId) {
    const chat = new AssistantPage(await world.page(`${pages.url}/?thread=${threadId}&aqueduct=${encodeURIComponent(world.url)}`));
    await chat.ready();
    return chat;
  },
}));

test('the question comes between the two looks of a page that comes back', async () => {
  const gate = world.agent.gate('between');
  const chat = new AssistantPage(await world.page(`${pages.url}/?thread=between&aqueduct=${encodeURIComponent(world.url)}`));
  await chat.send('story between');
  gate.let(7); // all that comes before the question
  await chat.shows('a time.');
  await chat.page.route('**/api/agui/chat', async (route) => {
    gate.let();
    await until('the answer has ended to ask', async () => (await world.thread('between')).lastRun.status === 'INTERRUPTED');
    await route.continue();
  });
  await chat.reload();
  await chat.questionsAre(1);
  await chat.page.unroute('**/api/agui/chat');
  await chat.answer('Go on with the story?', 'Approve');
  await chat.shows('The end.');
  await chat.idle();
  await chat.close();
});
