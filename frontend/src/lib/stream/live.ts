// Owns the page's socket: keeping one open, telling a dead one, when to try again. What is told is looked at elsewhere.
import { backoff_ms } from './backoff';
import type { Env, NetworkEvent } from './env';
import { parseObject } from './protocol';
import type { Said } from './stand_ins';

export const KINDS = ['conversations', 'title', 'response.started', 'response.ended'] as const;

/** Something to look at again: ids, never text. */
export interface Told {
  kind: (typeof KINDS)[number];
  conversation: string | null;
  response: string | null;
}

export interface LiveSink {
  onTold(told: Told): void;
  /** Connected; what happened before was not told. `again` after an earlier connection. */
  onConnected(again: boolean): void;
  /** What was asked for over it holds no longer. */
  onLost(): void;
  /** Whether the server counts this page as a reader of a response by its socket alone. */
  onCounted(responseId: string, counted: boolean): void;
  onSignedOut(): void;
}

export type OpenSocket = () => WebSocket;

const SIGNED_OUT = 4401;
const RESTARTING = 1012;
/** After these nothing is gained by asking again soon. */
const LATE = new Set([1013, 4400, 4429, 4430]);
const LATE_MS = 60_000;
const HELLO_MS = 15_000;
/** A connection that lived shorter than this does not count as a success. */
const STABLE_MS = 5000;

export class Live {
  #socket: WebSocket | null = null;
  #isOpen = false;
  #wasOpen = false;
  #closed = true;
  #attempt = 0;
  #opened_ms = 0;
  #heartbeat_ms = HELLO_MS;
  #silence: number | null = null;
  #retry: number | null = null;
  #unlisten: (() => void) | null = null;

  constructor(
    private readonly env: Env,
    private readonly openSocket: OpenSocket,
    private readonly sink: LiveSink,
  ) {}

  /** Whether changes are told here now; else the page has to look by itself. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  start(): void {
    if (!this.#closed) return;
    this.#closed = false;
    this.#unlisten = this.env.network.listen((event) => this.#onNetwork(event));
    this.#connect();
  }

  close(): void {
    this.#closed = true;
    this.#unlisten?.();
    this.#clear();
    this.#drop();
  }

  /** Asks for a response of this user to be stopped, or says who reads it; false where nobody is there to hear. */
  say(type: 'stop' | Said, response: string): boolean {
    if (!this.#isOpen) return false;
    this.#socket?.send(JSON.stringify({ type, response }));
    return true;
  }

  #connect(): void {
    this.#clear();
    const socket = this.openSocket();
    this.#socket = socket;
    this.#heartbeat_ms = HELLO_MS;
    this.#listenForLife();
    socket.onmessage = ({ data }) => socket === this.#socket && this.#take(String(data));
    socket.onclose = ({ code }) => socket === this.#socket && this.#lost(code);
  }

  #take(data: string): void {
    this.#listenForLife();
    const message = parseObject(data);
    if (message?.['type'] === 'hello') this.#greeted(Number(message['heartbeat_s']));
    const type = message?.['type'];
    const response = text(message?.['response']);
    const kind = KINDS.find((known) => known === type);
    if (kind) this.sink.onTold({ kind, conversation: text(message?.['conversation']), response });
    if (response && (type === 'reading' || type === 'not_reading')) this.sink.onCounted(response, type === 'reading');
  }

  #greeted(heartbeat_s: number): void {
    if (heartbeat_s > 0) this.#heartbeat_ms = heartbeat_s * 1000;
    this.#listenForLife();
    this.#isOpen = true;
    this.#opened_ms = this.env.clock.now();
    this.sink.onConnected(this.#wasOpen);
    this.#wasOpen = true;
  }

  /** A socket of a network that is gone stays open for minutes: only its heartbeat tells. */
  #listenForLife(): void {
    if (this.#silence !== null) this.env.clock.clearTimeout(this.#silence);
    this.#silence = this.env.clock.setTimeout(() => this.#lost(0), 2 * this.#heartbeat_ms);
  }

  #lost(code: number): void {
    if (this.#isOpen && this.env.clock.now() - this.#opened_ms > STABLE_MS) this.#attempt = 0;
    this.#drop();
    this.#clear();
    if (this.#closed) return;
    this.sink.onLost();
    if (code === SIGNED_OUT) {
      this.close();
      this.sink.onSignedOut();
      return;
    }
    this.#attempt = code === RESTARTING ? 1 : this.#attempt + 1;
    const least_ms = LATE.has(code) ? LATE_MS : 0;
    this.#retry = this.env.clock.setTimeout(() => this.#connect(), least_ms + backoff_ms(this.#attempt, this.env.random));
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#isOpen = false;
    socket?.close();
  }

  #clear(): void {
    for (const timer of [this.#silence, this.#retry]) if (timer !== null) this.env.clock.clearTimeout(timer);
    this.#silence = this.#retry = null;
  }

  #onNetwork(event: NetworkEvent): void {
    if (event === 'offline') this.#lost(0);
    else if (event !== 'hidden' && this.#socket === null && this.#attempt > 0) this.#connect();
  }
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/** The socket of this site. */
export function siteSocket(): WebSocket {
  return new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws/me/`);
}
