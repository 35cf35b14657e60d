// Owns for which responses the page's socket stands in: read by no stream, and counted by the server all the same.

export type Said = 'reading' | 'not_reading';

interface StandIn {
  onCounted(): void;
  onOver(): void;
}

/** `say` tells the server over the socket; false where there is none. */
export class StandIns {
  readonly #asked = new Map<string, StandIn>();

  constructor(private readonly say: (what: Said, responseId: string) => boolean) {}

  /**
   * Asks to be counted: `onCounted` once the server does, `onOver` when it refuses or no longer does, the socket is
   * lost, or the answer has ended. False where nobody is there to ask.
   */
  ask(responseId: string, standIn: StandIn): boolean {
    if (!this.say('reading', responseId)) return false;
    this.#asked.set(responseId, standIn);
    return true;
  }

  /** A stream reads it again, or nobody does. */
  leave(responseId: string): void {
    if (this.#asked.delete(responseId)) this.say('not_reading', responseId);
  }

  counted(responseId: string): void {
    this.#asked.get(responseId)?.onCounted();
  }

  over(responseId: string): void {
    const standIn = this.#asked.get(responseId);
    this.#asked.delete(responseId);
    standIn?.onOver();
  }

  /** The socket is gone, and with it all that was counted. */
  lost(): void {
    for (const responseId of [...this.#asked.keys()]) this.over(responseId);
  }
}
