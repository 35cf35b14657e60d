// Owns the verdict on a stream that is over: finished, truncated or errored. A pure function; examples/verdict.py is its twin.
import { parseObject } from './protocol';

export interface Verdict {
  outcome: 'finished' | 'truncated' | 'errored';
  /** The model's; null unless the stream finished. */
  finish_reason: string | null;
  /** Structured output or tool arguments are whole. */
  parse_json: boolean;
  /** The answer may go on: ask for the rest with the last event id. */
  resume: boolean;
}

type Json = Record<string, unknown>;

const LOST: Verdict = { outcome: 'truncated', finish_reason: null, parse_json: false, resume: true };
const CUT: Verdict = { ...LOST, resume: false };
const ERRORED: Verdict = { ...CUT, outcome: 'errored' };
/** Ends that leave a part of an answer that is right as far as it goes. */
const CUT_SHORT = new Set<unknown>(['cancelled', 'abandoned', 'truncated']);
const FINISH_REASONS = new Map<unknown, string>([
  ['max_output_tokens', 'length'],
  ['content_filter', 'content_filter'],
]);

/** Judges by the `data` of all events. A clean close proves nothing: only an event that says so ends an answer. */
export function verdict(data: Iterable<string>): Verdict {
  let finishReason: string | null = null;
  for (const text of data) {
    if (text === '[DONE]') break;
    const body = parseObject(text);
    if (!body) return ERRORED;
    const end = endOf(body);
    if (end) return end;
    finishReason = finishReasonOf(body) ?? finishReason;
  }
  return finishReason === null ? LOST : finished(finishReason);
}

function finished(finishReason: string): Verdict {
  const parse_json = finishReason === 'stop' || finishReason === 'tool_calls';
  return { outcome: 'finished', finish_reason: finishReason, parse_json, resume: false };
}

function endOf(body: Json): Verdict | null {
  if (body.error || body.object === 'error' || body.type === 'error') return failed(mapping(body.error));
  const response = mapping(body.response);
  switch (body.type) {
    case 'response.completed':
      return finished(list(response.output).some((item) => item.type === 'function_call') ? 'tool_calls' : 'stop');
    case 'response.incomplete': {
      const reason = FINISH_REASONS.get(mapping(response.incomplete_details).reason);
      return reason ? finished(reason) : CUT;
    }
    case 'response.failed':
      return failed(response);
    default:
      return null;
  }
}

function failed(what: Json): Verdict {
  if (what.code === 'stream_detached') return LOST;
  return CUT_SHORT.has(what.end_state) ? CUT : ERRORED;
}

function finishReasonOf(body: Json): string | null {
  const reasons = list(body.choices).map((choice) => choice.finish_reason);
  return reasons.find((reason): reason is string => typeof reason === 'string') ?? null;
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(mapping) : [];
}

function mapping(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}
