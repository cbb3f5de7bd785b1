// What every chat is tried in: the scripted agent, Aqueduct in front of it, and Chromium.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { launch } from '../../judges/lib/chromium.mjs';
import { Agent } from './agent.mjs';
import { freePort, patience, Program } from './program.mjs';

export class World {
  /** start makes the world; origin is the page's, where it is not Aqueduct's own. */
  static async start({ origin } = {}) {
    const world = new World();
    world.agent = await new Agent().start();
    world.folder = await mkdtemp(join(tmpdir(), 'aqueduct-chats-'));
    const port = await freePort();
    world.url = `http://127.0.0.1:${port}`;
    world.aqueduct = new Program(process.env.AQUEDUCT, [
      'serve', '--listen', `127.0.0.1:${port}`, '--agent', `script=${world.agent.url}`, '--name', 'chats',
      '--database', `sqlite:${join(world.folder, 'aqueduct.db')}`, ...(origin ? ['--cors-origin', origin] : []),
    ], { url: `${world.url}/readyz` });
    await world.aqueduct.start();
    world.browser = await launch();
    return world;
  }

  /** page opens a page in a browser that reaches nothing but this machine: what else it asks for ends at a closed door. */
  async page(url) {
    this.context ??= await this.browser.newContext({ viewport: { width: 900, height: 1400 }, proxy: { server: 'http://127.0.0.1:9' } });
    const page = await this.context.newPage();
    page.outside = [];
    page.troubles = [];
    page.setDefaultTimeout(patience);
    page.on('request', (request) => {
      const { protocol, hostname } = new URL(request.url());
      if (protocol.startsWith('http') && hostname !== '127.0.0.1') page.outside.push(request.url());
    });
    page.on('pageerror', (error) => page.troubles.push(String(error)));
    page.on('response', (r) => r.status() >= 400 && r.status() !== 404 && page.troubles.push(`${r.status()} ${r.url()}`));
    await page.goto(url);
    return page;
  }

  /** kill ends Aqueduct without a word and starts it again. */
  async kill() {
    await this.aqueduct.end('SIGKILL');
    await this.aqueduct.start();
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
