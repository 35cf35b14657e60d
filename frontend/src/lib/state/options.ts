// Owns what a person set for one conversation: how the model is asked. Kept in this browser.

export interface Options {
  temperature: number | null;
  max_tokens: number | null;
  /** Function definitions as JSON, as they were typed. */
  tools: string;
  /** The answer shall be JSON, of `schema` if there is one (as it was typed). */
  json: boolean;
  schema: string;
}

export const NO_OPTIONS: Options = { temperature: null, max_tokens: null, tools: '', json: false, schema: '' };
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

/** The typed schema, {} where none was; null where it is no JSON object. */
export function parseSchema(text: string): object | null {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** What goes into a message's body. The rest of a cut answer is text (`mayBeJson` is false): a grammar would begin anew. */
export function asBody({ temperature, max_tokens, tools, json, schema }: Options, mayBeJson = true): object {
  const isJson = json && mayBeJson;
  const parsed = isJson ? [] : (parseTools(tools) ?? []);
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(max_tokens === null ? {} : { max_tokens }),
    ...(parsed.length === 0 ? {} : { tools: parsed }),
    ...(isJson ? { response_format: formatOf(parseSchema(schema) ?? {}) } : {}),
  };
}

function formatOf(schema: object): object {
  if (Object.keys(schema).length === 0) return { type: 'json_object' };
  return { type: 'json_schema', json_schema: { name: 'answer', schema } };
}
