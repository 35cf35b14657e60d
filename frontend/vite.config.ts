// Owns how the page is built: one entry, hashed files under /static/, a manifest that the page template reads.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/static/',
  plugins: [svelte()],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    manifest: 'manifest.json',
    // The preload helper would add <link> elements; a plain import() is all that two chunks need.
    modulePreload: false,
    target: ['chrome123', 'firefox128', 'safari17.5'],
    rollupOptions: { input: 'src/main.ts' },
  },
});
