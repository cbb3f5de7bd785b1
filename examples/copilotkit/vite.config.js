import { defineConfig } from 'vite';

// "npm run dev" passes what the page asks CopilotKit's runtime on to "npm start".
const runtime = process.env.RUNTIME_URL ?? 'http://127.0.0.1:4000';

export default defineConfig({
  server: { proxy: { '/api/copilotkit': runtime } },
  build: {
    chunkSizeWarningLimit: 5000,
    rolldownOptions: { checks: { moduleLevelDirective: false } }, // CopilotKit's parts say "use client" for Next.js
  },
});
