// Owns how the output items of a response are read: its message, its reasoning, its tool calls. Keeps no state.

type Json = Record<string, unknown>;

export interface OutputItem {
  index: number;
  kind: 'message' | 'reasoning' | 'call';
  /** Of a call. */
  name: string;
  /** The reasoning, or a call's arguments as the model wrote them; nothing of a message, whose text is the answer's. */
  text: string;
  /** No more of it will come. */
  done: boolean;
  /** A call that has ended with arguments that are no JSON object. */
  invalid: boolean;
}

const KINDS = { message: 'message', reasoning: 'reasoning', function_call: 'call' } as const;

export function readItem(value: unknown, index: unknown): OutputItem | null {
  const item = mapping(value);
  const kind = KINDS[item.type as keyof typeof KINDS] as OutputItem['kind'] | undefined;
  if (kind === undefined || typeof index !== 'number' || !Number.isInteger(index) || index < 0) return null;
  return {
    index,
    kind,
    name: kind === 'call' ? text(item.name) : '',
    text: kind === 'call' ? text(item.arguments) : kind === 'reasoning' ? reasoning(item) : '',
    done: item.status === 'completed',
    invalid: kind === 'call' && typeof item.error === 'string',
  };
}

/** The items of a stored answer. */
export function readOutput(value: unknown): OutputItem[] {
  return Array.isArray(value) ? value.flatMap((item, index) => readItem(item, index) ?? []) : [];
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
