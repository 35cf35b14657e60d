// Owns which addresses of a model's answer may become links.

const SAFE_SCHEME = /^(?:https?:\/\/|mailto:|tel:)/i;

/** Absolute addresses only: a relative one would be a request to this very site, made by a model's text. */
export function isSafeUrl(url: string): boolean {
  return SAFE_SCHEME.test(url.trim());
}

export function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return '';
  }
}
