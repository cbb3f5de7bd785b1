// assistant-ui with @assistant-ui/react-ag-ui on Aqueduct, without anything between.

import { after, before } from 'node:test';
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

  // The page has come back when it shows the thread. Were the agent let on before, the answer
  // could end between the page's two looks, and assistant-ui drops the question of a run that
  // brings no content but a snapshot.
  async reload() {
    await super.reload();
    await this.page.locator('[data-role=user]').first().waitFor();
  }

  async send(text) {
    const box = this.page.getByLabel('Message');
    await box.fill(text);
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
