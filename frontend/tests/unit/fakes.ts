// Owns the stand-ins of the connection tests: a network that answers from a script, and time that tests move.
import type { LinkStatus, Sink } from '../../src/lib/stream/connection';
import type { Env, NetworkEvent } from '../../src/lib/stream/env';
import type { Refusal } from '../../src/lib/stream/refusal';
import { StandIns } from '../../src/lib/stream/stand_ins';
import { NEW_ANSWER, reduce, type Answer } from '../../src/lib/state/answer';

export interface Sent {
  url: string;
  method: string;
  headers: Headers;
  body: string | null;
}

export type Reply = (sent: Sent, signal: AbortSignal) => Promise<Response> | Response;

export class FakeEnv implements Env {
  readonly sent: Sent[] = [];
  readonly delays_ms: number[] = [];
  online = true;
  hidden = false;
  /** What was said over the page's socket; null where there is none. */
  said: string[] | null = [];
  standIns = new StandIns((what, responseId) => this.said !== null && this.said.push(`${what} ${responseId}`) > 0);
  #now_ms = 0;
  #next = 1;
  readonly #timers = new Map<number, { at_ms: number; callback: () => void }>();
  readonly #listeners = new Set<(event: NetworkEvent) => void>();
  readonly #replies: Reply[];

  constructor(...replies: Reply[]) {
    this.#replies = replies;
  }

  fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const sent = { url, method: init.method ?? 'GET', headers: new Headers(init.headers), body: (init.body as string) ?? null };
    this.sent.push(sent);
    const reply = this.#replies[this.sent.length - 1];
    if (!reply) throw new Error(`no reply was planned for request ${this.sent.length}: ${sent.method} ${url}`);
    return reply(sent, init.signal ?? new AbortController().signal);
  };

  clock = {
    now: () => this.#now_ms,
    setTimeout: (callback: () => void, delay_ms: number) => {
      const handle = this.#next++;
      this.#timers.set(handle, { at_ms: this.#now_ms + delay_ms, callback });
      this.delays_ms.push(delay_ms);
      return handle;
    },
    clearTimeout: (handle: number) => void this.#timers.delete(handle),
  };

  random = () => 1;
  csrfToken = () => 'token';
  network = {
    isOnline: () => this.online,
    isHidden: () => this.hidden,
    listen: (listener: (event: NetworkEvent) => void) => {
      this.#listeners.add(listener);
      return () => void this.#listeners.delete(listener);
    },
  };

  tell(event: NetworkEvent): void {
    if (event === 'hidden' || event === 'visible') this.hidden = event === 'hidden';
    for (const listener of [...this.#listeners]) listener(event);
  }

  /** Moves time, letting everything that waits run in between. */
  async pass(duration_ms: number): Promise<void> {
    await settle();
    const end_ms = this.#now_ms + duration_ms;
    for (;;) {
      const due = [...this.#timers].filter(([, timer]) => timer.at_ms <= end_ms).sort((a, b) => a[1].at_ms - b[1].at_ms)[0];
      if (!due) break;
      this.#now_ms = Math.max(this.#now_ms, due[1].at_ms);
      this.#timers.delete(due[0]);
      due[1].callback();
      await settle();
    }
    this.#now_ms = end_ms;
  }
}

export function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** A sink that reduces, as the page does, and remembers what else it was told. */
export class Recorder implements Sink {
  answer: Answer = NEW_ANSWER;
  statuses: LinkStatus[] = [];
  refusal: Refusal | null = null;
  gone = false;
  login = false;
  resets = 0;
  /** Every text that was ever shown. */
  texts: string[] = [];

  onResponseId = (id: string) => (this.answer = reduce(this.answer, { kind: 'response_id', id }));
  onStatus = (status: LinkStatus) => this.statuses.push(status);
  onRefused = (refusal: Refusal) => (this.refusal = refusal);
  onGone = () => (this.gone = true);
  onLogin = () => (this.login = true);
  onReset = () => {
    this.resets += 1;
    this.answer = reduce(this.answer, { kind: 'reset' });
  };
  onEvent: Sink['onEvent'] = (event) => {
    this.answer = reduce(this.answer, { kind: 'wire', event });
    this.texts.push(this.answer.text);
  };
}

export const PIECES = ['Héllo', ' wörld', ' 😀', ' नमस्ते', '\n\n- e\u0301nd', '.'];
export const TEXT = PIECES.join('');
export const ID = 'resp_1';

const encoder = new TextEncoder();
type Fields = Record<string, unknown>;

function frame(type: string, sequence: number, id: number | null, fields: Fields): string {
  const idLine = id === null ? '' : `id: ${ID}:1.${id}\n`;
  return `event: ${type}\n${idLine}data: ${JSON.stringify({ type, sequence_number: sequence, ...fields })}\n\n`;
}

export function endedResponse(fields: Fields = {}): Fields {
  return { id: ID, status: 'completed', end_state: 'completed', end_reason: 'stop', finish_reason: 'stop', ...fields };
}

/** The frames after a cursor: event 1 starts, events 2… are the pieces, the last one ends. */
export function framesAfter(cursor: number, end: Fields = endedResponse(), pieces: string[] = PIECES): string {
  const created = { response: { id: ID, conversation_id: 'c', user_message_id: 'u', message_id: 'm' } };
  let wire = '';
  if (cursor < 1) {
    wire += frame('response.created', 1, null, created) + frame('response.in_progress', 2, null, created);
    wire += frame('response.output_item.added', 16, 1, {});
  }
  pieces.forEach((delta, index) => {
    const seq = index + 2;
    if (seq > cursor) wire += `: ping\n${frame('response.output_text.delta', 16 * seq, seq, { delta })}`;
  });
  const last = pieces.length + 2;
  const before = 16 * (last - 1);
  wire += frame('response.output_text.done', before + 1, null, { text: pieces.join('') });
  wire += frame(`response.${end.status === 'completed' ? 'completed' : 'incomplete'}`, 16 * last, last, { response: end });
  return wire;
}

export function cursorOf(sent: Sent): number {
  return Number(/\.(\d+)$/.exec(sent.headers.get('Last-Event-ID') ?? '')?.[1] ?? 0);
}

export type BodyEnd = 'clean' | 'broken' | 'open';

export function sse(wire: string | Uint8Array, end: BodyEnd = 'clean', headers: Record<string, string> = {}): Response {
  const bytes = typeof wire === 'string' ? encoder.encode(wire) : wire;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
      if (end === 'clean') controller.close();
    },
    pull(controller) {
      if (end === 'broken') controller.error(new TypeError('network error'));
      return end === 'open' ? new Promise(() => undefined) : undefined;
    },
  });
  return new Response(body, { headers: { 'Content-Type': 'text/event-stream; charset=utf-8', ...headers } });
}

export function refusal(status: number, code: string, headers: Record<string, string> = {}): Response {
  const body = JSON.stringify({ error: { code, message: `because ${code}` } });
  return new Response(body, { status, headers: { 'Content-Type': 'application/json', ...headers } });
}

/** Goes on from wherever the caller says it is. */
export const resume: Reply = (sent) => sse(framesAfter(cursorOf(sent)));
export const unreachable: Reply = () => Promise.reject(new TypeError('failed to fetch'));
/** Never answers, until it is given up. */
export const silent: Reply = (_sent, signal) =>
  new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new DOMException('', 'AbortError'))));
