import { defineConfig } from 'vite';

// The page asks for /api on its own origin, so it works behind any server that passes /api
// on. Here that is Vite's; set AQUEDUCT_URL when Aqueduct listens elsewhere.
const aqueduct = process.env.AQUEDUCT_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  server: { proxy: { '/api': { target: aqueduct, changeOrigin: true } } },
  preview: { proxy: { '/api': { target: aqueduct, changeOrigin: true } } },
  build: { chunkSizeWarningLimit: 5000 }, // TDesign's markdown brings its own editor
});
