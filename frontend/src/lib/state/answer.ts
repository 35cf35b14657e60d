// Owns what an answer is after an event: a pure function of the answer so far. Knows no network and no clock.
import type { FailureDetail, OutputError, ResponseObject, StopProof, Usage, WireEvent } from '../stream/protocol';
import type { Refusal } from '../stream/refusal';
import { withDelta, withItem, type Step } from './steps';

export interface End {
  state: string;
  reason: string;
  finishReason: string | null;
  error: FailureDetail | null;
}

export interface Answer {
  responseId: string | null;
  conversationId: string | null;
  userMessageId: string | null;
  messageId: string | null;
  model: string | null;
  text: string;
  /** It was asked to be JSON. `judged`: the server has looked at all of it, and found `outputError` or nothing. */
  json: boolean;
  judged: boolean;
  outputError: OutputError | null;
  /** Its calls are run by the server, and their results come. */
  runsTools: boolean;
  /** What it did beside its text, and in which order. */
  steps: readonly Step[];
  /** The highest sequence number taken: a replay of it or of anything before it changes nothing. */
  sequence: number;
  accepted: boolean;
  /** The server said that it waits for an engine. */
  queued: boolean;
  continued: number;
  stop: 'none' | 'asked' | 'failed';
  /** True once the server has said how it ended; its last text may still be on the way. */
  end: End | null;
  /** True once nothing more will come. */
  closed: boolean;
  refusal: Refusal | null;
  usage: Usage | null;
  proof: StopProof | null;
  ttft_ms: number | null;
  duration_ms: number | null;
}

export type AnswerEvent =
  | { kind: 'wire'; event: WireEvent; at_ms?: number }
  | { kind: 'response_id'; id: string }
  | { kind: 'reset' }
  | { kind: 'queued'; queued: boolean }
  | { kind: 'stop_asked' }
  | { kind: 'stop_failed' }
  /** What the server says of it when it is asked, or stopped. */
  | { kind: 'told'; response: ResponseObject }
  | { kind: 'stopped_unsent' }
  | { kind: 'refused'; refusal: Refusal }
  | { kind: 'timed'; ttft_ms: number | null; duration_ms: number | null };

export const NEW_ANSWER: Answer = {
  ...{ json: false, judged: false, outputError: null, runsTools: false },
  ...{ responseId: null, conversationId: null, userMessageId: null, messageId: null, model: null },
  ...{ text: '', steps: [], sequence: 0, accepted: false, queued: false, continued: 0, stop: 'none', end: null, closed: false, refusal: null },
  ...{ usage: null, proof: null, ttft_ms: null, duration_ms: null },
};

export function reduce(answer: Answer, event: AnswerEvent): Answer {
  switch (event.kind) {
    case 'wire':
      return reduceWire(answer, event.event, event.at_ms ?? null);
    case 'response_id':
      return { ...answer, responseId: event.id, accepted: true };
    case 'reset':
      return { ...answer, text: '', steps: [], sequence: 0, continued: 0 };
    case 'queued':
      return { ...answer, queued: event.queued };
    case 'stop_asked':
      return answer.end ? answer : { ...answer, stop: 'asked' };
    case 'stop_failed':
      return answer.end ? answer : { ...answer, stop: 'failed' };
    case 'told':
      return withResponse(answer, event.response);
    case 'stopped_unsent':
      return { ...answer, end: answer.end ?? end('cancelled', 'user'), closed: true };
    case 'refused':
      return reduceRefusal(answer, event.refusal);
    case 'timed':
      return {
        ...answer,
        ttft_ms: answer.ttft_ms ?? event.ttft_ms,
        duration_ms: answer.duration_ms ?? event.duration_ms,
      };
  }
}

function reduceWire(answer: Answer, event: WireEvent, at_ms: number | null): Answer {
  // An end is told again to whoever has all before it, under a number that may be known.
  const isNews = event.sequence > answer.sequence || (event.type === 'ended' && !answer.closed);
  if (!isNews) return answer;
  const next = { ...answer, sequence: Math.max(answer.sequence, event.sequence), accepted: true };
  switch (event.type) {
    case 'created':
      return withResponse(next, event.response);
    case 'delta':
      return { ...next, text: answer.text + event.text };
    case 'text_done':
      return { ...next, text: event.text };
    case 'item':
      return { ...next, steps: withItem(answer.steps, event.item, at_ms, answer.text.length) };
    case 'item_delta':
      return { ...next, steps: withDelta(answer.steps, event.index, event.text) };
    case 'continued':
      return { ...next, continued: event.attempt };
    case 'ended':
      return { ...withResponse(next, event.response, endOf(event.response)), ...judgement(answer, event.response), closed: true };
    case 'progress':
      return next;
  }
}

function judgement({ json }: Answer, { output_error }: ResponseObject): Partial<Answer> {
  return json ? { judged: true, outputError: output_error } : {};
}

/** Later facts win, absent ones change nothing; the first end that is known stays. */
function withResponse(answer: Answer, response: ResponseObject, fallback: End | null = null): Answer {
  const known = response.end_state ? endOf(response) : fallback;
  return {
    ...answer,
    responseId: answer.responseId ?? (response.id || null),
    conversationId: response.conversation_id ?? answer.conversationId,
    userMessageId: response.user_message_id ?? answer.userMessageId,
    messageId: response.message_id ?? answer.messageId,
    model: response.model ?? answer.model,
    end: answer.end ?? known,
    usage: response.usage ?? answer.usage,
    proof: response.stop ?? answer.proof,
    ttft_ms: response.ttft_ms ?? answer.ttft_ms,
    duration_ms: response.duration_ms ?? answer.duration_ms,
  };
}

const STATE_OF_STATUS: Record<string, string> = { completed: 'completed', cancelled: 'cancelled', failed: 'errored' };

function endOf(response: ResponseObject): End {
  const state = response.end_state ?? STATE_OF_STATUS[response.status] ?? 'completed';
  return { state, reason: response.end_reason ?? '', finishReason: response.finish_reason, error: response.error };
}

function reduceRefusal(answer: Answer, refusal: Refusal): Answer {
  const closed = { ...answer, end: answer.end ?? refusedEnd(refusal), closed: true };
  if (!refusal.end) return { ...closed, refusal };
  return { ...closed, responseId: answer.responseId ?? refusal.end.responseId, accepted: true };
}

function refusedEnd(refusal: Refusal): End {
  const { state, reason } = refusal.end ?? { state: 'rejected', reason: refusal.code };
  return { ...end(state, reason), error: { code: refusal.code, message: refusal.message } };
}

function end(state: string, reason: string): End {
  return { state, reason, finishReason: null, error: null };
}
