// CopilotKit's React page and runtime: examples/copilotkit, built and started as its README says.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Chat } from './lib/chat.mjs';
import { freePort, Program, until } from './lib/program.mjs';
import { World } from './lib/world.mjs';
import { matrix } from './matrix.mjs';

const example = fileURLToPath(new URL('../../examples/copilotkit', import.meta.url));
const quiet = { COPILOTKIT_TELEMETRY_DISABLED: 'true', DO_NOT_TRACK: '1', SCARF_ANALYTICS: 'false' };

let world;
let runtime;

before(async () => {
  world = await World.start();
  const port = await freePort();
  runtime = new Program('npm', ['start', '--silent'], {
    cwd: example, url: `http://127.0.0.1:${port}/`, env: { ...quiet, AQUEDUCT_URL: world.url, PORT: String(port) },
  });
  await runtime.start();
});

after(async () => {
  await world?.stop();
  await runtime?.end();
});

class CopilotPage extends Chat {
  async ready() {
    await this.page.getByTestId('copilot-chat-textarea').waitFor();
  }

  async send(text) {
    const box = this.page.getByTestId('copilot-chat-textarea');
    await box.fill(text);
    await box.press('Enter');
  }

  transcript() {
    return this.page.evaluate(() => [...document.querySelectorAll('[data-testid=copilot-user-message],[data-testid=copilot-assistant-message]')]
      .map((m) => [m.dataset.testid === 'copilot-user-message' ? 'user' : 'assistant', m.innerText.trim()]));
  }

  /** idle waits until the send button is one again, and not a stop button. */
  async idle() {
    await this.page.locator('[data-testid=copilot-chat]:not([data-copilot-running=true])').first().waitFor();
  }

  async stop() {
    await this.page.getByTestId('copilot-send-button').click();
  }

  async regenerate() {
    await this.page.getByTestId('copilot-assistant-message').last().hover();
    await this.page.getByTestId('copilot-regenerate-button').last().click();
  }

  async edit(text) {
    this.page.once('dialog', (dialog) => dialog.accept(text));
    await this.page.getByTestId('copilot-user-message').last().hover();
    await this.page.getByTestId('copilot-edit-button').last().click();
  }

  async attach(file) {
    await this.page.locator('input[type=file]').setInputFiles(file);
    await this.page.getByTestId('copilot-attachment-queue').waitFor();
  }

  async picturesAre(n) {
    await until(`${n} pictures`, async () => await this.page.locator('[data-testid=copilot-user-message] img').count() === n);
  }
}

matrix(() => ({
  world,
  async open(threadId) {
    const chat = new CopilotPage(await world.page(`${runtime.url}?thread=${threadId}`));
    await chat.ready();
    return chat;
  },
  async restart() {
    await runtime.end('SIGKILL');
    await runtime.start();
  },
}));

test('the runtime outlived it all', () => assert.ok(runtime.alive, runtime.output));
