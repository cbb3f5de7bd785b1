// What the pages have in common.

import assert from 'node:assert/strict';

import { until } from './program.mjs';

export class Chat {
  constructor(page) {
    this.page = page;
  }

  /** shows waits until words stand in that many answers. */
  async shows(words, times = 1) {
    const found = ([role, text]) => role === 'assistant' && (words instanceof RegExp ? words.test(text) : text.includes(words));
    let shown;
    await until(`the page shows ${words}`, async () => {
      shown = await this.transcript();
      return shown.filter(found).length >= times;
    }).catch((error) => { throw new Error(`${error.message}; it shows ${JSON.stringify(shown)}; ${this.page.troubles}`); });
  }

  async isTranscript(want) {
    let shown;
    await until('the transcript', async () => {
      shown = await this.transcript();
      return JSON.stringify(shown) === JSON.stringify(want);
    }, 10_000).catch(() => assert.deepEqual(shown, want));
  }

  async counts(n) {
    await this.page.locator('#count output', { hasText: new RegExp(`^${n}$`) }).waitFor();
  }

  questions(title = '') {
    return this.page.locator('section.question', { hasText: title });
  }

  async questionsAre(n) {
    await until(`${n} questions`, async () => await this.questions().count() === n);
  }

  async answer(title, button, first = () => {}) {
    const click = this.questions(title).getByRole('button', { name: button });
    await click.waitFor();
    first();
    await click.click();
  }

  async reload() {
    await this.page.reload();
    await this.ready();
  }

  /** forgiveBrokenConnection is for tests that kill the server: the page may see that its response broke off. */
  forgiveBrokenConnection() {
    this.page.troubles = this.page.troubles.filter((t) => !t.includes('network error'));
  }

  async close() {
    assert.deepEqual(this.page.troubles, [], 'the page met an error');
    assert.deepEqual(this.page.outside, [], 'the page called out');
    await this.page.close();
  }
}
