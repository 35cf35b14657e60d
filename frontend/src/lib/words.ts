// Owns which language the page speaks, and numbers in it. The words themselves are in locales.
import { en, type Words } from './locales/en';
import { readPreferences } from './prefs.svelte';

/** A language other than English is a chunk of its own: nobody loads words that are not spoken to them. */
const CATALOGUES: Record<string, () => Words | Promise<Words>> = {
  en: () => en,
  de: async () => (await import('./locales/de')).de,
};

export const language = chosen();
export const words: Words = await CATALOGUES[language]!();

function chosen(): string {
  const wanted = readPreferences().language;
  if (wanted !== 'auto') return wanted;
  const known = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => tag in CATALOGUES);
  return known ?? 'en';
}

export function number(value: number, digits = 0): string {
  return value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A day, from a date or a time, as people write it. */
export function day(iso: string): string {
  // A date alone is a day of the server's, which no time zone shall move.
  const zone = iso.length === 10 ? { timeZone: 'UTC' } : {};
  return new Date(iso).toLocaleDateString(language, { year: 'numeric', month: 'short', day: 'numeric', ...zone });
}

/** A time, as people write it. */
export function moment(iso: string): string {
  return new Date(iso).toLocaleString(language, { dateStyle: 'medium', timeStyle: 'short' });
}

export function tokens(count: number): string {
  return words.tokens(count, number(count));
}

export function duration(value_ms: number): string {
  if (value_ms < 1000) return `${Math.round(value_ms)} ms`;
  return `${number(value_ms / 1000, value_ms < 10_000 ? 1 : 0)} s`;
}
