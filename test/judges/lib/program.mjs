// An aqueduct of the test's own, which it may kill and start again at the same address.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** freePort is a port that nobody listens on right now. */
export function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

// startPatience is how long a program may take until it is ready: Vite takes seconds, on a busy machine more of them.
const startPatience = 120_000;

/** running waits for a line of a program and gives the child; what it wrote is in the error. */
export function running(ready, command, args, options) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  const ended = new Promise((resolve) => child.once('close', resolve));
  // A test that fails half-way leaves nothing behind.
  process.once('exit', () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(options?.detached ? -child.pid : child.pid, 'SIGKILL');
  });
  process.once('SIGTERM', () => process.exit(143)); // of the runner, when the tests take too long
  return new Promise((resolve, reject) => {
    let wrote = '';
    const read = (chunk) => {
      wrote += chunk;
      if (ready.test(wrote)) resolve(Object.assign(child, { ended, said: () => wrote }));
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('error', reject);
    ended.then(() => reject(new Error(`${command} ended: ${wrote}`)));
    setTimeout(() => reject(new Error(`${command} was not ready within ${startPatience} ms: ${wrote}`)), startPatience).unref();
  });
}

/** Program is the program named in AQUEDUCT with its demo agent. */
export class Program {
  #folder = mkdtempSync(join(tmpdir(), 'aqueduct-judged-'));
  #child;

  /** start gives one that listens; pace is the demo agent's between two words, args are further flags, env replaces the environment. */
  static async start(pace = '2ms', args = [], env = process.env) {
    const program = new Program();
    program.port = await freePort();
    program.url = `http://127.0.0.1:${program.port}`;
    program.pace = pace;
    program.env = env;
    await program.start(...args);
    return program;
  }

  /** start starts it, again with what there is; args are further flags. */
  async start(...args) {
    this.#child = await running(/listening on/, process.env.AQUEDUCT, [
      'serve', '--demo', '--demo-pace', this.pace, '--listen', `127.0.0.1:${this.port}`, '--database', `sqlite:${join(this.#folder, 'a.db')}`, ...args,
    ], { env: this.env });
  }

  /** said is what it wrote. */
  get said() {
    return this.#child.said();
  }

  /** kill leaves it no chance to say anything. */
  async kill() {
    this.#child.kill('SIGKILL');
    await this.#child.ended;
  }

  async close() {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
