// Owns what a person set for one conversation: how the model is asked. Kept in this browser.

export interface Options {
  temperature: number | null;
  max_tokens: number | null;
  /** Function definitions as JSON, as they were typed. */
  tools: string;
}

export const NO_OPTIONS: Options = { temperature: null, max_tokens: null, tools: '' };
const PREFIX = 'options:';
const NEW = 'new';

export function readOptions(conversationId: string | null): Options {
  try {
    const kept = JSON.parse(localStorage.getItem(PREFIX + (conversationId ?? NEW)) ?? '{}') as Partial<Options>;
    return { ...NO_OPTIONS, ...kept };
  } catch {
    return NO_OPTIONS;
  }
}

export function keepOptions(conversationId: string | null, options: Options): void {
  try {
    localStorage.setItem(PREFIX + (conversationId ?? NEW), JSON.stringify(options));
  } catch {
    // they last as long as the page
  }
}

/** The typed tools; null where they are no list of JSON objects. */
export function parseTools(text: string): unknown[] | null {
  if (text.trim() === '') return [];
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((tool) => typeof tool === 'object' && tool !== null) ? value : null;
  } catch {
    return null;
  }
}

/** What goes into a message's body. */
export function asBody({ temperature, max_tokens, tools }: Options): object {
  const parsed = parseTools(tools) ?? [];
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(max_tokens === null ? {} : { max_tokens }),
    ...(parsed.length === 0 ? {} : { tools: parsed }),
  };
}
