// Owns conversations that are about to be deleted: gone from the page at once, from the server after a while.
import type { ConversationRow } from '../api';
import type { Clock } from '../stream/env';

export const UNDO_MS = 8000;

export interface RemovalHooks {
  /** Now for good. */
  onDelete(row: ConversationRow): void;
}

export class Removals {
  /** The one that can be brought back. Its predecessor is deleted when another one follows. */
  row: ConversationRow | null = $state.raw(null);
  #timer: number | null = null;

  constructor(
    private readonly clock: Clock,
    private readonly hooks: RemovalHooks,
  ) {}

  begin(row: ConversationRow): void {
    this.finish();
    this.row = row;
    this.goOn();
  }

  /** The time to think stands still, as long as somebody is at the notice. */
  wait(): void {
    if (this.#timer !== null) this.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  goOn(): void {
    this.wait();
    if (this.row) this.#timer = this.clock.setTimeout(() => this.finish(), UNDO_MS);
  }

  undo(): ConversationRow | null {
    const { row } = this;
    this.wait();
    this.row = null;
    return row;
  }

  finish(): void {
    const row = this.undo();
    if (row) this.hooks.onDelete(row);
  }
}
