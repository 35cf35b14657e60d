// Owns one answer on the page: its connection, its reducer and the snapshot that is painted once per frame.
import { paintSoon } from '../paint';
import { cancelResponse, type CancelResult } from '../stream/cancel';
import { Connection, type LinkStatus, type Target } from '../stream/connection';
import type { Env } from '../stream/env';
import { readResponse, type WireEvent } from '../stream/protocol';
import type { Refusal } from '../stream/refusal';
import { askResponse, watchQueue } from './queue_watch';
import { NEW_ANSWER, reduce, type Answer, type AnswerEvent } from './answer';

export interface RunHooks {
  /** The server has taken the request, or said under which ids. May be called twice. */
  onKnown(answer: Answer): void;
  onClosed(answer: Answer): void;
  onGone(): void;
  onLogin(): void;
}

const UNREACHED: Refusal = { status: 0, code: 'unreachable', message: '', retryAfter_s: null, end: null };

export class Run {
  /** What is painted; at most one frame behind `latest`. */
  answer: Answer = $state.raw(NEW_ANSWER);
  link: LinkStatus = $state.raw({ kind: 'closed' });
  latest: Answer;
  #connection: Connection | null = null;
  #hooks: RunHooks | null = null;
  #asked_ms = 0;
  #shown = true;

  constructor(
    private readonly env: Env,
    answer: Answer,
  ) {
    this.latest = this.answer = answer;
  }

  get running(): boolean {
    return !this.answer.closed;
  }

  start(target: Target, hooks: RunHooks): void {
    if (this.latest.closed) return;
    this.#hooks = hooks;
    this.#asked_ms = this.env.clock.now();
    this.#connection = new Connection(this.env, target, {
      onResponseId: (id) => this.#onResponseId(id),
      onEvent: (event) => this.#onEvent(event, target.kind === 'post'),
      onStatus: (status) => (this.link = status),
      onReset: () => this.#dispatch({ kind: 'reset' }),
      onRefused: (refusal) => this.refuse(refusal),
      onGone: () => hooks.onGone(),
      onLogin: () => hooks.onLogin(),
    });
    this.#connection.show(this.#shown);
    void this.#connection.run();
    if (target.kind === 'follow') this.#watchQueue(target.responseId);
  }

  /** Whether its conversation is the one shown: if not, it need not be read as it comes. */
  show(shown: boolean): void {
    this.#shown = shown;
    this.#connection?.show(shown);
  }

  async stop(): Promise<void> {
    const connection = this.#connection;
    if (this.latest.end || this.latest.stop === 'asked') return;
    if (!connection) return this.#close({ kind: 'stopped_unsent' });
    this.#dispatch({ kind: 'stop_asked' });
    const unsent = connection.responseId === null && !connection.busy;
    const result = await this.#cancel(connection);
    if (result.kind === 'answered') this.#dispatch({ kind: 'told', response: result.response });
    else if (!unsent) this.#dispatch({ kind: 'stop_failed' });
    if (!unsent || connection.busy) return;
    // The POST was only waiting to be repeated: nothing will come, so nothing is waited for.
    connection.close();
    this.#close({ kind: 'stopped_unsent' });
  }

  /** By key while the id is not known, and once more by id if it became known meanwhile and the key did not do. */
  async #cancel(connection: Connection): Promise<CancelResult> {
    const byKey = connection.responseId === null;
    const result = await cancelResponse(this.env, connection.responseId, connection.key);
    if (result.kind === 'answered' || !byKey || connection.responseId === null) return result;
    return cancelResponse(this.env, connection.responseId, null);
  }

  /** Ends here: the server refused, or (null) could not be reached before anything was sent. */
  refuse(refusal: Refusal | null): void {
    this.#close({ kind: 'refused', refusal: refusal ?? UNREACHED });
  }

  /** Follows no longer; the server decides by its policy what becomes of the response. */
  detach(): void {
    this.#connection?.close();
  }

  #onResponseId(id: string): void {
    this.#dispatch({ kind: 'response_id', id });
    this.#watchQueue(id);
  }

  /** Headers without an event: the answer has not begun, and only asking tells why. */
  #watchQueue(id: string): void {
    const isWaiting = () => this.latest.sequence === 0 && !this.latest.closed && this.link.kind !== 'closed';
    void watchQueue(this.env, id, isWaiting, (queued) => this.#dispatch({ kind: 'queued', queued }));
  }

  #onEvent(event: WireEvent, timed: boolean): void {
    const first = this.latest.text === '';
    if (event.type === 'ended') {
      if (!timed) void this.#learnFigures();
      const duration_ms = timed ? this.env.clock.now() - this.#asked_ms : null;
      this.#close({ kind: 'wire', event, at_ms: this.env.clock.now() }, { kind: 'timed', ttft_ms: null, duration_ms });
      return;
    }
    this.#dispatch({ kind: 'wire', event, at_ms: this.env.clock.now() });
    if (timed && first && this.latest.text !== '' && event.type === 'delta') {
      this.#dispatch({ kind: 'timed', ttft_ms: this.env.clock.now() - this.#asked_ms, duration_ms: null });
    }
  }

  /** Of an answer that was asked for before the page was loaded, or elsewhere, only the server knows the times. */
  async #learnFigures(): Promise<void> {
    const response = await askResponse(this.env, this.latest.responseId!);
    if (response) this.#dispatch({ kind: 'told', response: readResponse(response) });
  }

  #close(...events: AnswerEvent[]): void {
    for (const event of events) this.#dispatch(event);
    this.#connection = null;
    this.#hooks?.onClosed(this.latest);
  }

  #dispatch(event: AnswerEvent): void {
    const before = this.latest;
    this.latest = reduce(before, event);
    if (this.latest === before) return;
    if (before.accepted !== this.latest.accepted || before.messageId !== this.latest.messageId) {
      this.#hooks?.onKnown(this.latest);
    }
    paintSoon(this.#paint);
  }

  #paint = (): void => {
    this.answer = this.latest;
  };
}
