// @vitest-environment node
// Budget of the first load: what the browser fetches before anything is shown, as brotli.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { expect, it } from 'vitest';

const DIST = path.join(import.meta.dirname, '..', '..', 'dist');
const MOST_BYTES = 100 * 1024;

it.skipIf(!existsSync(path.join(DIST, 'manifest.json')))('the first load is at most 100 KB of brotli', () => {
  const manifest = JSON.parse(readFileSync(path.join(DIST, 'manifest.json'), 'utf8'));
  const entry = manifest['src/main.ts'];
  const parts = [entry, ...(entry.imports ?? []).map((name) => manifest[name])];
  const files = parts.flatMap((part) => [part.file, ...(part.css ?? [])]);
  const bytes = files.map((file) => brotliCompressSync(readFileSync(path.join(DIST, file))).length);
  expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(MOST_BYTES);
});
