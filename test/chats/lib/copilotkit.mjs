// CopilotKit's page, and what starts its runtime.

import { fileURLToPath } from 'node:url';

import { Chat } from './chat.mjs';
import { freePort, Program, until } from './program.mjs';

export const example = fileURLToPath(new URL('../../../examples/copilotkit', import.meta.url));

const quiet = { COPILOTKIT_TELEMETRY_DISABLED: 'true', DO_NOT_TRACK: '1', SCARF_ANALYTICS: 'false' };

/** runtime starts a server of the runtime and the page, in front of Aqueduct. */
export async function runtime(world, command, args, cwd) {
  const port = await freePort();
  const env = { ...quiet, AQUEDUCT_URL: world.url, PORT: String(port) };
  return new Program(command, args, { cwd, env, url: `http://127.0.0.1:${port}/` }).start();
}

export class CopilotPage extends Chat {
  async ready() {
    await this.page.getByTestId('copilot-chat-textarea').waitFor();
  }

  /** send waits for the button as a person does: before the runtime has answered, the page takes no message and says so by it. */
  async send(text) {
    const box = this.page.getByTestId('copilot-chat-textarea');
    await box.fill(text);
    await until('the page takes messages', () => this.page.getByTestId('copilot-send-button').isEnabled());
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
