// Owns following one response until its terminal event: the POST, every reconnect, every wait. Keeps no text.
import { Absence } from './absence';
import { backoff_ms } from './backoff';
import type { Env, NetworkEvent } from './env';
import { readFrame, type WireEvent } from './protocol';
import { readRefusal, type Refusal } from './refusal';
import { readEvents, type EventReader } from './sse';

export const SILENCE_MS = 30_000;
/** A longer Retry-After is told to the reader instead of being waited out. */
const LONGEST_WAIT_S = 120;

export type Target =
  | { kind: 'post'; url: string; body: unknown; key: string }
  | { kind: 'follow'; responseId: string; lastEventId: string | null };

export type LinkStatus =
  | { kind: 'connecting' }
  | { kind: 'live' }
  | { kind: 'reconnecting'; attempt: number; until_ms: number }
  | { kind: 'offline' }
  | { kind: 'waiting'; status: number; why: string; until_ms: number }
  | { kind: 'closed' };

export interface Sink {
  onResponseId(id: string): void;
  onEvent(event: WireEvent): void;
  onStatus(status: LinkStatus): void;
  /** The log changed: forget the text, a replay from the start follows. */
  onReset(): void;
  onRefused(refusal: Refusal): void;
  onGone(): void;
  onLogin(): void;
}

type Outcome =
  | { kind: 'over' }
  | { kind: 'lost'; atOnce: boolean; atLeast_ms: number }
  | { kind: 'changed' }
  | { kind: 'busy'; status: number; why: string; wait_s: number };

const LOST: Outcome = { kind: 'lost', atOnce: false, atLeast_ms: 0 };

export class Connection {
  responseId: string | null;
  lastEventId: string | null;
  readonly key: string | null;
  #attempt = 0;
  #closed = false;
  #ended = false;
  #wasOffline = false;
  #restart = false;
  #opening: AbortController | null = null;
  #reader: EventReader | null = null;
  #wake: (() => void) | null = null;
  readonly #absence: Absence;
  #gaveBack = false;
  #shown = true;

  constructor(
    private readonly env: Env,
    private readonly target: Target,
    private readonly sink: Sink,
  ) {
    this.responseId = target.kind === 'follow' ? target.responseId : null;
    this.lastEventId = target.kind === 'follow' ? target.lastEventId : null;
    this.key = target.kind === 'post' ? target.key : null;
    this.#absence = new Absence(env, this);
  }

  /** True while a POST is on its way or a stream is open, so that an answer to it may still come. */
  get busy(): boolean {
    return this.#opening !== null || this.#reader !== null;
  }

  get unwatched(): boolean {
    return !this.#shown || this.env.network.isHidden();
  }

  /** Whether the answer is on the page, be that hidden or not. */
  show(shown: boolean): void {
    this.#shown = shown;
    this.#watched();
  }

  async run(): Promise<void> {
    const unlisten = this.env.network.listen((event) => this.#onNetwork(event));
    this.sink.onStatus({ kind: 'connecting' });
    this.#absence.beginSoon();
    try {
      while (!this.#closed) {
        const outcome = await this.#once();
        if (this.#closed || outcome.kind === 'over') break;
        if (!this.#gaveBack) await this.#recover(outcome);
        this.#gaveBack = false;
        await this.#absence.over;
      }
    } finally {
      unlisten();
      this.#closed = true;
      this.#absence.stay();
      this.sink.onStatus({ kind: 'closed' });
    }
  }

  /** Stops following. The response itself goes on until the server's policy ends it. */
  close(): void {
    this.#closed = true;
    this.#drop();
    this.#wake?.();
    this.#absence.end();
  }

  /** Nobody looks, and the page's socket stands in. */
  giveBack(): void {
    this.#gaveBack = this.busy;
    this.#drop();
  }

  #drop(): void {
    this.#opening?.abort();
    this.#reader?.close();
  }

  async #once(): Promise<Outcome> {
    const response = await this.#open();
    if (response === null) return LOST;
    if (response.ok && response.body && isEventStream(response)) return this.#read(response, response.body);
    return this.#refused(response);
  }

  async #open(): Promise<Response | null> {
    const opening = new AbortController();
    this.#opening = opening;
    const silence = this.env.clock.setTimeout(() => opening.abort(), SILENCE_MS);
    try {
      return await this.env.fetch(...this.#request(opening.signal));
    } catch {
      return null;
    } finally {
      this.env.clock.clearTimeout(silence);
      this.#opening = null;
    }
  }

  #request(signal: AbortSignal): [string, RequestInit] {
    const common = { credentials: 'same-origin', cache: 'no-store', signal } as const;
    if (this.responseId === null && this.target.kind === 'post') {
      const headers = {
        'Content-Type': 'application/json',
        Accept: 'text/event-stream',
        'X-CSRFToken': this.env.csrfToken(),
        'Idempotency-Key': this.target.key,
      };
      return [this.target.url, { ...common, method: 'POST', headers, body: JSON.stringify(this.target.body) }];
    }
    const headers: Record<string, string> = { Accept: 'text/event-stream' };
    if (this.lastEventId !== null) headers['Last-Event-ID'] = this.lastEventId;
    return [`/api/responses/${this.responseId}/stream`, { ...common, method: 'GET', headers }];
  }

  async #read(response: Response, body: ReadableStream<Uint8Array>): Promise<Outcome> {
    this.#learnId(response.headers.get('X-Response-ID'));
    this.sink.onStatus({ kind: 'live' });
    this.#absence.stay();
    this.#absence.beginSoon();
    this.#reader = readEvents(body, this.env.clock, SILENCE_MS, (message) => {
      const frame = readFrame(message.data);
      if (frame.kind === 'detached') return true;
      if (frame.kind === 'event') this.#take(frame.event);
      // Only now: an event that was not taken must be sent again after a reconnect.
      if (message.id) this.lastEventId = message.id;
      return this.#ended;
    });
    await this.#reader.finished;
    this.#reader = null;
    if (this.#ended) return { kind: 'over' };
    const atOnce = this.#restart;
    this.#restart = false;
    return { kind: 'lost', atOnce, atLeast_ms: 0 };
  }

  #take(event: WireEvent): void {
    this.#attempt = 0;
    if (event.type === 'created') this.#learnId(event.response.id);
    if (event.type === 'ended') this.#ended = true;
    this.sink.onEvent(event);
  }

  #learnId(id: string | null): void {
    if (!id || this.responseId !== null) return;
    this.responseId = id;
    this.sink.onResponseId(id);
  }

  async #refused(response: Response): Promise<Outcome> {
    const refusal = await readRefusal(response);
    const { status } = refusal;
    const beforeStream = this.responseId === null;
    if (refusal.end) {
      this.sink.onRefused(refusal);
      return { kind: 'over' };
    }
    if (response.ok || (status >= 500 && status !== 503)) return LOST;
    if (status === 429 || status === 503) return this.#busy(refusal, beforeStream);
    if (status === 409 && !beforeStream) return { kind: 'changed' };
    if (status === 401) this.sink.onLogin();
    else if (status === 410) this.sink.onGone();
    else this.sink.onRefused(refusal);
    return { kind: 'over' };
  }

  #busy(refusal: Refusal, beforeStream: boolean): Outcome {
    const wait_s = refusal.retryAfter_s ?? 5;
    if (!beforeStream) return { kind: 'lost', atOnce: false, atLeast_ms: Math.min(wait_s, 15) * 1000 };
    if (wait_s <= LONGEST_WAIT_S) return { kind: 'busy', status: refusal.status, why: refusal.message, wait_s };
    this.sink.onRefused(refusal);
    return { kind: 'over' };
  }

  async #recover(outcome: Exclude<Outcome, { kind: 'over' }>): Promise<void> {
    if (outcome.kind === 'changed') {
      this.lastEventId = null;
      this.sink.onReset();
      return;
    }
    if (outcome.kind === 'busy') {
      const { status, why, wait_s } = outcome;
      const wait_ms = wait_s * 1000;
      this.sink.onStatus({ kind: 'waiting', status, why, until_ms: this.env.clock.now() + wait_ms });
      await this.#sleep(wait_ms, false);
      if (!this.#closed) this.sink.onStatus({ kind: 'connecting' });
      return;
    }
    this.#attempt += 1;
    const backoff = outcome.atOnce ? 0 : backoff_ms(this.#attempt, this.env.random);
    const delay_ms = Math.max(backoff, outcome.atLeast_ms);
    const until_ms = this.env.clock.now() + delay_ms;
    const online = this.env.network.isOnline();
    this.sink.onStatus(online ? { kind: 'reconnecting', attempt: this.#attempt, until_ms } : { kind: 'offline' });
    await this.#sleep(delay_ms, outcome.atLeast_ms === 0);
  }

  #sleep(delay_ms: number, wakeable: boolean): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.env.clock.clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
      const timer = this.env.clock.setTimeout(wake, delay_ms);
      this.#wake = () => {
        if (wakeable || this.#closed) wake();
      };
    });
  }

  #watched(): void {
    if (this.unwatched) this.#absence.beginSoon();
    else if (this.#reader) this.#absence.stay();
    else this.#absence.end();
  }

  #onNetwork(event: NetworkEvent): void {
    if (event === 'visible' || event === 'hidden') this.#watched();
    if (event === 'hidden') return;
    if (event === 'offline') {
      this.#wasOffline = true;
      this.sink.onStatus({ kind: 'offline' });
      return;
    }
    // A socket that lived through an outage is seldom alive, and asking again costs one request.
    if (event === 'online' && this.#wasOffline && this.#reader) {
      this.#restart = true;
      this.#reader.close();
    }
    if (event === 'online') this.#wasOffline = false;
    this.#wake?.();
  }
}

function isEventStream(response: Response): boolean {
  return (response.headers.get('Content-Type') ?? '').startsWith('text/event-stream');
}
