// Owns how the page is built: one entry, hashed files under /static/, a manifest that the page template reads.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

/** What is fetched when it is first needed, with all that only it needs. */
const LATER = /Shared\.svelte|JsonAnswer|JsonValue|json_words|Tool(Call|Result)|Members|lib\/export|LongText|partial_json|(Keys|Usage|Share|Settings|Options)Dialog|state\/usage|locales\/(?!en)|markdown\/languages|node_modules\/(katex|highlight\.js)/;

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
    rollupOptions: {
      input: 'src/main.ts',
      // What the first load needs is one chunk: cut where a window happens to share it, it compresses worse.
      output: { codeSplitting: { groups: [{ name: 'page', test: (id: string) => !LATER.test(id) }] } },
    },
  },
});
