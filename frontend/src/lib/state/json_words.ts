// Owns what the page says about an answer of JSON. Only the server's judgement counts, and only of a whole answer.
import { words } from '../words';
import type { Answer } from './answer';

export interface JsonVerdict {
  text: string;
  tone: 'good' | 'warn' | 'bad';
}

/** Null while nothing can be said. */
export function jsonVerdict({ end, judged, outputError }: Answer): JsonVerdict | null {
  if (!end) return null;
  if (end.state !== 'completed' || end.reason !== 'stop') return { text: words.json.cut, tone: 'warn' };
  if (!judged) return null;
  if (outputError === null) return { text: words.json.valid, tone: 'good' };
  const { code, message, path } = outputError;
  const text = code === 'invalid_json' ? words.json.invalid(message) : words.json.mismatch(path || '/', message);
  return { text, tone: 'bad' };
}
