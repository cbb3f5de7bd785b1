// What every chat is tried in: the scripted agent, Aqueduct in front of it, and Chromium.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { launch } from '../../judges/lib/chromium.mjs';
import { authorization, fetch } from '../../judges/lib/token.mjs';
import { Agent } from './agent.mjs';
import { freePort, patience, Program } from './program.mjs';

export class World {
  /** start makes the world; origin is the page's, where it is not Aqueduct's own. */
  static async start({ origin } = {}) {
    const world = new World();
    await world.#start(origin).catch(async (error) => {
      await world.stop(); // or node would wait for what runs
      throw error;
    });
    return world;
  }

  async #start(origin) {
    this.agent = await new Agent().start();
    this.folder = await mkdtemp(join(tmpdir(), 'aqueduct-chats-'));
    const port = await freePort();
    this.url = `http://127.0.0.1:${port}`;
    this.aqueduct = new Program(process.env.AQUEDUCT, [
      'serve', '--listen', `127.0.0.1:${port}`, '--agent', `script=${this.agent.url}`, '--name', 'chats',
      '--database', `sqlite:${join(this.folder, 'aqueduct.db')}`, ...(origin ? ['--cors-origin', origin] : []),
    ], { url: `${this.url}/readyz` });
    await this.aqueduct.start();
    this.browser = await launch();
    // A page that has a server of its own gets the token from it; one on another origin shows it itself.
    this.headers = origin ? authorization : {};
  }

  /** page opens a page in a browser that reaches nothing but this machine: what else it asks for ends at a closed door. */
  async page(url) {
    this.context ??= await this.browser.newContext({ viewport: { width: 900, height: 1400 }, extraHTTPHeaders: this.headers, proxy: { server: 'http://127.0.0.1:9', bypass: '127.0.0.1' } });
    const page = await this.context.newPage();
    page.outside = [];
    page.troubles = [];
    page.asked = [];
    page.setDefaultTimeout(patience);
    page.on('request', (request) => {
      const { protocol, hostname } = new URL(request.url());
      if (protocol.startsWith('http') && hostname !== '127.0.0.1') page.outside.push(request.url());
    });
    // Nothing here waits: a page that is closed rejects what it is asked, and no test would be there to take it.
    const asked = (request, came) => page.asked.push(`${request.method()} ${request.url()} ${came} ${request.postData()?.slice(-400) ?? ''}`);
    page.on('requestfailed', (request) => asked(request, request.failure()?.errorText));
    page.on('response', (r) => {
      asked(r.request(), r.status());
      if (r.status() >= 400 && r.status() !== 404) page.troubles.push(`${r.status()} ${r.url()}`);
    });
    page.on('pageerror', (error) => page.troubles.push(String(error)));
    await page.goto(url);
    return page;
  }

  /** kill ends Aqueduct without a word and starts it again. */
  async kill() {
    await this.aqueduct.end('SIGKILL');
    await this.aqueduct.start();
  }

  /** state is what the pages that are open show, and what they asked for last. */
  async state() {
    const pages = this.context?.pages() ?? [];
    return (await Promise.all(pages.map(async (page) => `${page.url()} shows:\n${await page.locator('body').innerText().catch(String)}\nit asked:\n${page.asked.slice(-6).join('\n')}`))).join('\n');
  }

  async thread(id) {
    return (await fetch(`${this.url}/api/threads/${id}`)).json();
  }

  async stop() {
    await this.browser?.close();
    await this.aqueduct?.end();
    this.agent?.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}
