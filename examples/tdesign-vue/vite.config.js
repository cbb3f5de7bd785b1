import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vite';

// The page asks for /api on its own origin; set AQUEDUCT_URL when Aqueduct listens elsewhere.
const aqueduct = process.env.AQUEDUCT_URL ?? 'http://127.0.0.1:8080';

const proxy = {
  '/api': { target: aqueduct, changeOrigin: true },
};

export default defineConfig({
  plugins: [vue({ template: { compilerOptions: { isCustomElement: (tag) => tag === 't-chat-message' } } })],
  server: { proxy },
  preview: { proxy },
  build: { chunkSizeWarningLimit: 5000 }, // TDesign's markdown brings its own editor
});
