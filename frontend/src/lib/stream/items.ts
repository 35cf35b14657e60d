// Owns how the output items of a response are read: message, reasoning, tool calls and their results. Keeps no state.

type Json = Record<string, unknown>;

export interface OutputItem {
  index: number;
  kind: 'message' | 'reasoning' | 'call' | 'result';
  /** Of a call. */
  name: string;
  /** Of a call and its result: what joins them. */
  callId: string;
  /**
   * The reasoning, a call's arguments as the model wrote them, or what a tool gave; nothing of a message, whose text is
   * the answer's.
   */
  text: string;
  /** No more of it will come. */
  done: boolean;
  /** The code of what is wrong: with a call whose arguments are no JSON object, with a result that is a failure. */
  error: string | null;
  /** How many characters (code points) of the answer's text came before it; only stored items know. */
  textBefore: number | null;
}

const KINDS = new Map<unknown, OutputItem['kind']>([
  ['message', 'message'],
  ['reasoning', 'reasoning'],
  ['function_call', 'call'],
  ['function_call_output', 'result'],
]);

export function readItem(value: unknown, index: unknown): OutputItem | null {
  const item = mapping(value);
  const kind = KINDS.get(item.type);
  if (kind === undefined || typeof index !== 'number' || !Number.isInteger(index) || index < 0) return null;
  const ofCall = kind === 'call' || kind === 'result';
  return {
    index,
    kind,
    name: kind === 'call' ? text(item.name) : '',
    callId: ofCall ? text(item.call_id) : '',
    text: textOf(kind, item),
    done: kind === 'result' || item.status === 'completed',
    textBefore: typeof item.text_before === 'number' ? item.text_before : null,
    error: ofCall && typeof item.error === 'string' ? item.error : null,
  };
}

/** The items of a stored answer. */
export function readOutput(value: unknown): OutputItem[] {
  return Array.isArray(value) ? value.flatMap((item, index) => readItem(item, index) ?? []) : [];
}

function textOf(kind: OutputItem['kind'], item: Json): string {
  if (kind === 'call') return text(item.arguments);
  if (kind === 'result') return text(item.output);
  return kind === 'reasoning' ? reasoning(item) : '';
}

function reasoning(item: Json): string {
  const parts = Array.isArray(item.content) ? item.content : [];
  return parts.map((part) => text(mapping(part).text)).join('');
}

function mapping(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {};
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
