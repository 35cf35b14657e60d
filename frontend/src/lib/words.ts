// Owns which language the page speaks, and numbers in it. The words themselves are in locales.
import { de } from './locales/de';
import { en, type Words } from './locales/en';
import { readPreferences } from './prefs.svelte';

const CATALOGUES: Record<string, Words> = { en, de };

export const language = chosen();
export const words: Words = CATALOGUES[language]!;

function chosen(): string {
  const wanted = readPreferences().language;
  if (wanted !== 'auto') return wanted;
  const known = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => tag in CATALOGUES);
  return known ?? 'en';
}

export function number(value: number, digits = 0): string {
  return value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function tokens(count: number): string {
  return words.tokens(count, number(count));
}

export function duration(value_ms: number): string {
  if (value_ms < 1000) return `${Math.round(value_ms)} ms`;
  return `${number(value_ms / 1000, value_ms < 10_000 ? 1 : 0)} s`;
}
