import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vite';

// The page asks for /api on its own origin; set AQUEDUCT_URL when Aqueduct listens elsewhere.
const aqueduct = process.env.AQUEDUCT_URL ?? 'http://127.0.0.1:8080';

// Aqueduct asks for a token, which "make run" has made. Vite's server reads it at each request and adds it, so that
// it stays out of the page; who can reach Vite's server (this machine alone, by default) can use it.
const program = process.env.AQUEDUCT_PROGRAM ?? new URL('../../bin/aqueduct', import.meta.url).pathname;
const tokenFile = process.env.AQUEDUCT_TOKEN_FILE;

function token() {
  return (tokenFile ? readFileSync(tokenFile, 'utf8') : execFileSync(program, ['token', 'show'], { encoding: 'utf8' })).trim();
}

function authorize(proxy) {
  const add = (request) => {
    try {
      request.setHeader('Authorization', `Bearer ${token()}`);
    } catch (error) {
      console.error(`Aqueduct's token cannot be read: ${error.message}`); // it answers 401
    }
  };
  proxy.on('proxyReq', add);
}

const proxy = {
  '/api': { target: aqueduct, changeOrigin: true, configure: authorize },
};

// Agents and other people write what the page shows. So it runs its own scripts alone, and asks no other server for anything: not
// for a picture either, which would tell that server who looks at it.
const headers = {
  'Content-Security-Policy': "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    + "font-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
};

export default defineConfig({
  plugins: [vue({ template: { compilerOptions: { isCustomElement: (tag) => tag === 't-chat-message' } } })],
  server: { proxy, headers },
  preview: { proxy, headers },
  build: { chunkSizeWarningLimit: 5000 }, // TDesign's markdown brings its own editor
});
