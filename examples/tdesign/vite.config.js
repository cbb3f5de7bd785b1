import { defineConfig } from 'vite';

// The page asks for /api on its own origin, so it works behind any server that passes /api
// on. Here that is Vite's; set AQUEDUCT_URL when Aqueduct listens elsewhere.
const aqueduct = process.env.AQUEDUCT_URL ?? 'http://127.0.0.1:8080';

// Its chat works with Host rewritten too, which changeOrigin does for an Aqueduct behind a name
// of its own. A WebSocket keeps the browser's Host: no browser says of one where it comes from.
const proxy = {
  '/api': { target: aqueduct, changeOrigin: true },
  '/ws': { target: aqueduct, ws: true },
};

export default defineConfig({
  server: { proxy },
  preview: { proxy },
  build: { chunkSizeWarningLimit: 5000 }, // TDesign's markdown brings its own editor
});
