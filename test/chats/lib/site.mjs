// A plain file server for a built page.

import { createReadStream, existsSync } from 'node:fs';
import http from 'node:http';
import { extname, join, normalize } from 'node:path';

const kinds = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css' };

/** site serves a folder; its url is known before there is anything behind it. */
export async function site(folder) {
  const server = http.createServer((req, res) => {
    const path = normalize(new URL(req.url, 'http://page').pathname);
    const file = join(folder, path === '/' ? 'index.html' : path);
    if (!existsSync(file)) return res.writeHead(404).end();
    res.writeHead(200, { 'Content-Type': kinds[extname(file)] ?? 'application/octet-stream', ...(path.startsWith('/assets/') && { 'Cache-Control': 'max-age=31536000, immutable' }) });
    return createReadStream(file).pipe(res);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => { server.close(); server.closeAllConnections(); } };
}
