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

export default defineConfig({
  plugins: [vue({ template: { compilerOptions: { isCustomElement: (tag) => tag === 't-chat-message' } } })],
  server: { proxy },
  preview: { proxy },
  build: { chunkSizeWarningLimit: 5000 }, // TDesign's markdown brings its own editor
});
