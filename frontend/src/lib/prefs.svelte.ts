// Owns what a person likes on every conversation: size of the type, the key that sends, the language. Kept in the browser.

export const FONT_SIZES = ['small', 'normal', 'large'] as const;
export const SEND_KEYS = ['enter', 'ctrl-enter'] as const;
export const LANGUAGES = ['auto', 'en', 'de'] as const;
const KEY = 'prefs';

export interface Preferences {
  fontSize: (typeof FONT_SIZES)[number];
  sendKey: (typeof SEND_KEYS)[number];
  language: (typeof LANGUAGES)[number];
}

const USUAL: Preferences = { fontSize: 'normal', sendKey: 'enter', language: 'auto' };

export function readPreferences(): Preferences {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Record<string, unknown>;
    return {
      fontSize: FONT_SIZES.find((size) => size === kept.fontSize) ?? USUAL.fontSize,
      sendKey: SEND_KEYS.find((key) => key === kept.sendKey) ?? USUAL.sendKey,
      language: LANGUAGES.find((language) => language === kept.language) ?? USUAL.language,
    };
  } catch {
    return USUAL;
  }
}

class Prefs {
  current: Preferences = $state.raw(readPreferences());

  set(change: Partial<Preferences>): void {
    this.current = { ...this.current, ...change };
    try {
      localStorage.setItem(KEY, JSON.stringify(this.current));
    } catch {
      // they last as long as the page
    }
    this.apply();
  }

  apply(): void {
    document.documentElement.dataset.fontSize = this.current.fontSize;
  }
}

export const prefs = new Prefs();
