import { defineConfig } from 'vite';

export default defineConfig({
  build: { chunkSizeWarningLimit: 5000, rolldownOptions: { checks: { moduleLevelDirective: false } } },
});
