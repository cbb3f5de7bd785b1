// A plain file server that passes /api on, as any web server in front of a built page does.

import { createReadStream, existsSync } from 'node:fs';
import http from 'node:http';
import { extname, join, normalize } from 'node:path';

const kinds = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' };

/** serve gives {url, drop, close} for a folder in front of an upstream; drop cuts every line. */
export async function serve(folder, upstream) {
  const server = http.createServer((req, res) => (req.url.startsWith('/api/') ? pass(req, res, new URL(upstream)) : file(req, res, folder)));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    drop: () => server.closeAllConnections(),
    close: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}

// pass keeps the stream a stream: bytes go on as they come, and a page that leaves is seen.
// Host becomes the upstream's and Origin stays, as with nginx's plain proxy_pass.
function pass(req, res, { hostname, port, host }) {
  const headers = { ...req.headers, host };
  const up = http.request({ hostname, port, method: req.method, path: req.url, headers }, (answer) => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.on('data', (chunk) => res.write(chunk));
    answer.on('end', () => res.end());
    answer.on('error', () => res.destroy());
  });
  up.on('error', () => res.destroy());
  res.on('close', () => up.destroy());
  req.pipe(up);
}

function file(req, res, folder) {
  const path = normalize(new URL(req.url, 'http://x').pathname);
  let name = join(folder, path === '/' ? 'index.html' : path);
  if (!existsSync(name) && existsSync(`${name}.js`)) name += '.js'; // a module that is imported without its ending
  if (!existsSync(name)) {
    res.writeHead(404).end();
    return;
  }
  res.writeHead(200, { 'Content-Type': kinds[extname(name)] ?? 'application/octet-stream' });
  createReadStream(name).pipe(res);
}
