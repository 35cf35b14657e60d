// Owns how long to wait before the next try. Waits nowhere itself.

const FIRST_CAP_MS = 500;
const LAST_CAP_MS = 15_000;

/** Full jitter: anything between nothing and a cap that doubles with each failed try. */
export function backoff_ms(attempt: number, random: () => number): number {
  const cap_ms = Math.min(LAST_CAP_MS, FIRST_CAP_MS * 2 ** Math.max(0, attempt - 1));
  return random() * cap_ms;
}

/** Seconds of a Retry-After header in both of its forms; null without a usable one. */
export function retryAfter_s(header: string | null, nowEpoch_ms: number): number | null {
  if (header === null) return null;
  if (/^\d{1,7}$/.test(header.trim())) return Number(header);
  const date_ms = Date.parse(header);
  return Number.isNaN(date_ms) ? null : Math.max(0, Math.ceil((date_ms - nowEpoch_ms) / 1000));
}
