// CopilotKit's runtime in front of Aqueduct, and the built page.

import { execFileSync } from 'node:child_process';
import { createReadStream, existsSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { extname, join, normalize } from 'node:path';
import { HttpAgent } from '@ag-ui/client';
import { CopilotRuntime } from '@copilotkit/runtime/v2';
import { createCopilotNodeListener } from '@copilotkit/runtime/v2/node';
import { AqueductRunner } from './runner.mjs';

const aqueduct = process.env.AQUEDUCT_URL ?? 'http://127.0.0.1:8080';
// The token that "make run" has made; AQUEDUCT_TOKEN_FILE names another file. It stays here: the page never sees it.
const program = process.env.AQUEDUCT_PROGRAM ?? join(import.meta.dirname, '../../bin/aqueduct');
const tokenFile = process.env.AQUEDUCT_TOKEN_FILE;
const token = (tokenFile ? readFileSync(tokenFile, 'utf8') : execFileSync(program, ['token', 'show'], { encoding: 'utf8' })).trim();
const headers = { Authorization: `Bearer ${token}` };
const port = Number(process.env.PORT ?? 4000);

const copilotkit = createCopilotNodeListener({
  runtime: new CopilotRuntime({
    agents: { default: new HttpAgent({ url: `${aqueduct}/api/agui/chat`, headers }) },
    runner: new AqueductRunner(aqueduct, headers),
  }),
  basePath: '/api/copilotkit',
});

// When Aqueduct is killed in mid-answer, @ag-ui/client reports it and also leaves a rejection
// unhandled (it cancels the reader of the stream that broke), which would end this process.
process.on('unhandledRejection', (error) => {
  if (error?.message !== 'terminated') throw error;
});

// Whoever reaches the runtime uses the token, so other sites' pages must not: neither through a name of theirs that
// leads to this machine (DNS rebinding), nor by a POST that a browser sends without asking first (CSRF).
const hosts = (process.env.PAGE_HOSTS ?? 'localhost,127.0.0.1,[::1]').split(',');

function fromOurPage({ headers: { host = '', origin, 'sec-fetch-site': site } }) {
  if (!hosts.includes(host.replace(/:\d+$/, ''))) return false;
  if (site) return site === 'same-origin' || site === 'none'; // scripts cannot set it; right behind Vite too, which replaces Host
  return !origin || (URL.canParse(origin) && new URL(origin).host === host);
}

// Agents and other people write what the page shows. So it runs its own scripts alone, and asks no other server for anything: not
// for a picture either, which would tell that server who looks at it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
  + "font-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

const kinds = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css' };

function page(req, res) {
  const path = normalize(new URL(req.url, 'http://page').pathname);
  const file = join(import.meta.dirname, 'dist', path === '/' ? 'index.html' : path);
  if (!existsSync(file)) return res.writeHead(404).end();
  res.writeHead(200, {
    'Content-Security-Policy': policy,
    'Content-Type': kinds[extname(file)] ?? 'application/octet-stream',
    'Cache-Control': path.startsWith('/assets/') ? 'max-age=31536000, immutable' : 'no-cache', // their names are hashes
  });
  return createReadStream(file).pipe(res);
}

const server = http.createServer((req, res) => {
  if (!req.url.startsWith('/api/copilotkit')) return page(req, res);
  return fromOurPage(req) ? copilotkit(req, res) : res.writeHead(403).end('not from this page: PAGE_HOSTS names its hosts\n');
});
server.listen(port, '127.0.0.1', () => console.log(`the page is at http://127.0.0.1:${server.address().port}`));
