// Owns the words of a response stream: its event types and how one frame is read. Keeps no state.
import { readItem, type OutputItem } from './items';

export interface Usage {
  prompt_tokens: number | null;
  completion_tokens: number | null;
  generated_tokens: number | null;
  sent_tokens: number | null;
}

export interface StopProof {
  stop_ms: number | null;
  generated_tokens: number | null;
  sent_tokens: number | null;
  tokens_after_stop: number | null;
  abort_proven: boolean | null;
}

export interface FailureDetail {
  code: string;
  message: string;
}

/** What is wrong with an answer that was to be JSON; `path` is a JSON pointer. */
export interface OutputError extends FailureDetail {
  path: string;
}

/** The fields of the `response` object that the page uses. */
export interface ResponseObject {
  id: string;
  status: string;
  model: string | null;
  conversation_id: string | null;
  user_message_id: string | null;
  message_id: string | null;
  end_state: string | null;
  end_reason: string | null;
  finish_reason: string | null;
  error: FailureDetail | null;
  output_error: OutputError | null;
  usage: Usage | null;
  stop: StopProof | null;
  ttft_ms: number | null;
  duration_ms: number | null;
}

export type WireEvent =
  | { type: 'created'; sequence: number; response: ResponseObject }
  | { type: 'progress'; sequence: number }
  | { type: 'delta'; sequence: number; text: string }
  | { type: 'text_done'; sequence: number; text: string }
  | { type: 'item'; sequence: number; item: OutputItem }
  | { type: 'item_delta'; sequence: number; index: number; text: string }
  | { type: 'continued'; sequence: number; attempt: number }
  | { type: 'ended'; sequence: number; response: ResponseObject };

export type Frame = { kind: 'event'; event: WireEvent } | { kind: 'detached'; lastEventId: string | null } | { kind: 'other' };

type Json = Record<string, unknown>;

const OTHER: Frame = { kind: 'other' };
const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** Reads the `data` of one frame. Names that we did not define are never acted on. */
export function readFrame(data: string): Frame {
  const body = parseObject(data);
  if (!body) return OTHER;
  const error = object(body.error);
  if (error && body.type === undefined) {
    return error.code === 'stream_detached' ? { kind: 'detached', lastEventId: text(error.last_event_id) } : OTHER;
  }
  const event = readEvent(body);
  return event ? { kind: 'event', event } : OTHER;
}

function readEvent(body: Json): WireEvent | null {
  const type = text(body.type);
  const sequence = number(body.sequence_number);
  if (type === null || sequence === null) return null;
  const response = object(body.response);
  if (TERMINAL.has(type)) return response && { type: 'ended', sequence, response: readResponse(response) };
  switch (type) {
    case 'response.created':
      return response && { type: 'created', sequence, response: readResponse(response) };
    case 'response.output_text.delta':
      return { type: 'delta', sequence, text: text(body.delta) ?? '' };
    case 'response.output_text.done':
      return { type: 'text_done', sequence, text: text(body.text) ?? '' };
    case 'response.output_item.added':
    case 'response.output_item.done':
      return itemEvent(body, sequence);
    case 'response.reasoning_text.delta':
    case 'response.function_call_arguments.delta':
      return { type: 'item_delta', sequence, index: number(body.output_index) ?? -1, text: text(body.delta) ?? '' };
    case 'response.continued':
      return { type: 'continued', sequence, attempt: number(body.attempt) ?? 1 };
    default:
      return type.startsWith('response.') ? { type: 'progress', sequence } : null;
  }
}

function itemEvent(body: Json, sequence: number): WireEvent {
  const item = readItem(body.item, body.output_index);
  return item ? { type: 'item', sequence, item } : { type: 'progress', sequence };
}

export function readResponse(body: Json): ResponseObject {
  const error = object(body.error);
  return {
    id: text(body.id) ?? '',
    status: text(body.status) ?? '',
    model: text(body.model),
    conversation_id: text(body.conversation_id),
    user_message_id: text(body.user_message_id),
    message_id: text(body.message_id),
    end_state: text(body.end_state),
    end_reason: text(body.end_reason),
    finish_reason: text(body.finish_reason),
    error: error && { code: text(error.code) ?? '', message: text(error.message) ?? '' },
    output_error: readOutputError(body.output_error),
    usage: readUsage(body.usage),
    stop: readStop(body.stop),
    ttft_ms: number(body.ttft_ms),
    duration_ms: number(body.duration_ms),
  };
}

export function readOutputError(value: unknown): OutputError | null {
  const body = object(value);
  return body && { code: text(body.code) ?? '', message: text(body.message) ?? '', path: text(body.path) ?? '' };
}

export function readUsage(value: unknown): Usage | null {
  const body = object(value);
  return (
    body && {
      prompt_tokens: number(body.prompt_tokens ?? body.input_tokens),
      completion_tokens: number(body.completion_tokens ?? body.output_tokens),
      generated_tokens: number(body.generated_tokens),
      sent_tokens: number(body.sent_tokens),
    }
  );
}

export function readStop(value: unknown): StopProof | null {
  const body = object(value);
  return (
    body && {
      stop_ms: number(body.stop_ms),
      generated_tokens: number(body.generated_tokens ?? body.generated),
      sent_tokens: number(body.sent_tokens ?? body.sent),
      tokens_after_stop: number(body.tokens_after_stop),
      abort_proven: typeof body.abort_proven === 'boolean' ? body.abort_proven : null,
    }
  );
}

/** `resp_X:2.17` -> 17; 0 for anything else. */
export function seqOfEventId(eventId: string | null): number {
  const match = /:\d{1,10}\.(\d{1,10})$/.exec(eventId ?? '');
  return match ? Number(match[1]) : 0;
}

/** The sequence number of the frame that carries this event id (16 per stored event). */
export function sequenceOfEventId(eventId: string | null): number {
  return 16 * seqOfEventId(eventId);
}

export function parseObject(data: string): Json | null {
  try {
    return object(JSON.parse(data));
  } catch {
    return null;
  }
}

function object(value: unknown): Json | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}
