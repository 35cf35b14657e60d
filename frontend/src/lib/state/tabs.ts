// Owns telling the other tabs of this browser that a conversation changed, so that they follow. Carries no text.

const CHANNEL = 'conversations';

export class Tabs {
  readonly #channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel(CHANNEL);

  /** `id` is the conversation that changed, null for the list alone. */
  tell(id: string | null): void {
    this.#channel?.postMessage({ id });
  }

  listen(onChange: (id: string | null) => void): void {
    this.#channel?.addEventListener('message', (event: MessageEvent<{ id?: unknown }>) => {
      const id = event.data?.id;
      onChange(typeof id === 'string' ? id : null);
    });
  }
}
