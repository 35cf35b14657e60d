// Owns how the unit tests run: jsdom, the client build of Svelte, nothing global.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [svelte()],
  resolve: { conditions: ['browser'] },
  test: { environment: 'jsdom', include: ['tests/unit/**/*.test.{ts,mjs}'], testTimeout: 60_000 },
});
