// Owns unsent text, kept per conversation over a reload. A store that is full or forbidden loses drafts, nothing else.

const PREFIX = 'draft:';
const NEW = 'new';

export function readDraft(conversationId: string | null): string {
  try {
    return localStorage.getItem(PREFIX + (conversationId ?? NEW)) ?? '';
  } catch {
    return '';
  }
}

export function keepDraft(conversationId: string | null, text: string): void {
  const key = PREFIX + (conversationId ?? NEW);
  try {
    if (text === '') localStorage.removeItem(key);
    else localStorage.setItem(key, text);
  } catch {
    // nothing to do: the text is still in the composer
  }
}

/** Forgets a draft once its message was accepted, unless something else was typed since. */
export function dropDraft(conversationId: string | null, sent: string): void {
  if (readDraft(conversationId) === sent) keepDraft(conversationId, '');
}

/** Also what was set for conversations: neither belongs to whoever signs in next. */
export function wipeDrafts(): void {
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(PREFIX) || key.startsWith('options:')) localStorage.removeItem(key);
    }
  } catch {
    // nothing is stored where nothing can be read
  }
}
