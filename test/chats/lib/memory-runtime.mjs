// CopilotKit's runtime as its quickstart starts it: with the runner it brings, in front of
// Aqueduct at AQUEDUCT_URL. Its packages are those of examples/copilotkit, and so is the page.

import { createReadStream, readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const example = join(import.meta.dirname, '../../../examples/copilotkit');
const packages = createRequire(join(example, 'package.json'));
const { HttpAgent } = packages('@ag-ui/client');
const { CopilotRuntime } = packages('@copilotkit/runtime/v2');
const { createCopilotNodeListener } = packages('@copilotkit/runtime/v2/node');

const headers = { Authorization: `Bearer ${readFileSync(process.env.AQUEDUCT_TOKEN_FILE, 'utf8').trim()}` };

const copilotkit = createCopilotNodeListener({
  runtime: new CopilotRuntime({ agents: { default: new HttpAgent({ url: `${process.env.AQUEDUCT_URL}/api/agui/chat`, headers }) } }),
  basePath: '/api/copilotkit',
});
const kinds = { js: 'text/javascript', css: 'text/css' };

http.createServer((req, res) => {
  if (req.url.startsWith('/api/copilotkit')) return copilotkit(req, res);
  const path = new URL(req.url, 'http://page').pathname;
  res.writeHead(200, { 'Content-Type': kinds[path.split('.').at(-1)] ?? 'text/html', 'Cache-Control': path === '/' ? 'no-cache' : 'max-age=31536000' });
  return createReadStream(join(example, 'dist', path === '/' ? 'index.html' : path)).on('error', () => res.destroy()).pipe(res);
}).listen(Number(process.env.PORT), '127.0.0.1');
