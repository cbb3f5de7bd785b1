// Programs the tests start and kill: Aqueduct as it ships, and node servers.

import { spawn } from 'node:child_process';
import net from 'node:net';

/** patience is how long a step may take on a machine that does much else. */
export const patience = 60_000;

/** freePort is one nobody listens on. */
export function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Program is a process that is ready when its url answers. */
export class Program {
  output = '';

  constructor(command, args, { env, url, cwd }) {
    Object.assign(this, { command, args, env, url, cwd });
  }

  async start() {
    this.process = spawn(this.command, this.args, { env: { ...process.env, ...this.env }, cwd: this.cwd, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    process.once('exit', () => this.alive && this.kill('SIGKILL'));
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on('data', (chunk) => { this.output += chunk; });
    this.ended = new Promise((resolve) => this.process.once('close', resolve));
    await until(`${this.command} answers`, async () => {
      if (this.process.exitCode !== null) throw new Error(`${this.command} ended:\n${this.output}`);
      return (await fetch(this.url).catch(() => undefined))?.ok;
    });
    return this;
  }

  get alive() {
    return this.process.exitCode === null && this.process.signalCode === null;
  }

  async end(signal = 'SIGTERM') {
    if (this.alive) this.kill(signal);
    await this.ended;
  }

  // npm starts a shell and that the program: the signal is for all of them.
  kill(signal) {
    process.kill(-this.process.pid, signal);
  }
}

/** until waits for a condition that something else brings about. */
export async function until(what, check, ms = patience) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: not within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
