// Owns when an answer that nobody looks at gives its connection back, and when it is read again. Opens and closes no stream.
import type { Env } from './env';

/** HTTP/1.1 allows six connections to all pages of a browser: what nobody looked at for so long does without. */
export const HIDDEN_MS = 2000;
/** After the server would not count the page, or no longer did. */
const AGAIN_MS = 20_000;

export interface Stream {
  readonly responseId: string | null;
  /** It has a connection, or waits for one. */
  readonly busy: boolean;
  /** The page is hidden, or shows another conversation. */
  readonly unwatched: boolean;
  giveBack(): void;
}

/** Never without a presence: the page's socket stands in for the stream, or the stream stays. */
export class Absence {
  /** Resolved unless the socket stands in. */
  over: Promise<void> = Promise.resolve();
  #end: (() => void) | null = null;
  #timer: number | null = null;

  constructor(
    private readonly env: Env,
    private readonly stream: Stream,
  ) {}

  beginSoon(delay_ms = HIDDEN_MS): void {
    if (!this.stream.unwatched) return;
    this.#timer ??= this.env.clock.setTimeout(() => {
      this.#timer = null;
      if (!this.#ask()) this.beginSoon();
    }, delay_ms);
  }

  /** Somebody looks, or there is something to read: a stream shall read on. The socket stands in until it does. */
  end(): void {
    this.#forget();
    this.#end?.();
  }

  /** A stream reads, or nothing does any more: the socket need not stand in. */
  stay(): void {
    this.end();
    if (this.stream.responseId !== null) this.env.standIns.leave(this.stream.responseId);
  }

  #ask(): boolean {
    const { responseId, busy } = this.stream;
    if (responseId === null || !busy) return false;
    return this.env.standIns.ask(responseId, {
      onCounted: () => this.#begin(),
      onOver: () => (this.#end ? this.end() : this.beginSoon(AGAIN_MS)),
    });
  }

  #begin(): void {
    if (this.#end !== null || !this.stream.unwatched) return;
    this.over = new Promise((resolve) => {
      this.#end = () => {
        this.#end = null;
        resolve();
      };
    });
    this.stream.giveBack();
  }

  #forget(): void {
    if (this.#timer !== null) this.env.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }
}
