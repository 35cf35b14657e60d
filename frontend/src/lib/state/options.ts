// Owns what a person set for one conversation: how the model is asked. Kept in this browser.

export interface Options {
  temperature: number | null;
  max_tokens: number | null;
  /** Function definitions as JSON, as they were typed. */
  tools: string;
  /** The answer shall be JSON, of `schema` if there is one (as it was typed). */
  json: boolean;
  schema: string;
  /** Names of tools that the server shall run. */
  run_tools: string[];
}

export interface Limits {
  least: number;
  most: number;
  whole: boolean;
}

/** What the server takes. */
export const LIMITS: Record<'temperature' | 'max_tokens', Limits> = {
  temperature: { least: 0, most: 2, whole: false },
  max_tokens: { least: 1, most: 1_000_000, whole: true },
};

export const NO_OPTIONS: Options = { temperature: null, max_tokens: null, tools: '', json: false, schema: '', run_tools: [] };
const PREFIX = 'options:';
const NEW = 'new';

export function readOptions(conversationId: string | null): Options {
  try {
    const kept = JSON.parse(localStorage.getItem(PREFIX + (conversationId ?? NEW)) ?? '{}') as Partial<Options>;
    return { ...NO_OPTIONS, ...kept, run_tools: Array.isArray(kept.run_tools) ? kept.run_tools : [] };
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

/** Whether a number can be asked for; none can. */
export function isWithin(value: number | null | undefined, { least, most, whole }: Limits): boolean {
  return value == null || (value >= least && value <= most && (!whole || Number.isInteger(value)));
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

/** Whether the server may run tools: not beside those that are only shown, and not for JSON. */
export function mayRunTools({ tools, json }: Pick<Options, 'tools' | 'json'>): boolean {
  return tools.trim() === '' && !json;
}

/** The chosen tools that an answer can have; `available` are those of the server. */
export function toolsToRun(options: Options, available: readonly string[]): string[] {
  return mayRunTools(options) ? available.filter((name) => options.run_tools.includes(name)) : [];
}

/**
 * What goes into a message's body. The rest of a cut answer (`isWhole` is false) is text: a grammar would begin anew, and
 * no tool is run.
 */
export function asBody(options: Options, isWhole: boolean, available: readonly string[]): object {
  const { temperature, max_tokens, tools, json, schema } = options;
  const isJson = json && isWhole;
  const parsed = isJson ? [] : (parseTools(tools) ?? []);
  const run_tools = isWhole ? toolsToRun(options, available) : [];
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(max_tokens === null ? {} : { max_tokens }),
    ...(parsed.length === 0 ? {} : { tools: parsed }),
    ...(run_tools.length === 0 ? {} : { run_tools }),
    ...(isJson ? { response_format: formatOf(parseSchema(schema) ?? {}) } : {}),
  };
}

function formatOf(schema: object): object {
  if (Object.keys(schema).length === 0) return { type: 'json_object' };
  return { type: 'json_schema', json_schema: { name: 'answer', schema } };
}
