// Owns looking for a text in all conversations. Asks when typing pauses; shows the answer to the newest question only.
import type { Api, Hit } from '../api';

const PAUSE_MS = 250;

export class Search {
  text = $state('');
  hits: Hit[] = $state.raw([]);
  /** The text that the hits belong to. */
  answered = $state('');
  #timer = 0;

  constructor(private readonly api: Api) {}

  get active(): boolean {
    return this.text.trim() !== '';
  }

  ask(text: string): void {
    this.text = text;
    clearTimeout(this.#timer);
    if (this.active) this.#timer = window.setTimeout(() => void this.#look(text.trim()), PAUSE_MS);
    else this.clear();
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.text = this.answered = '';
    this.hits = [];
  }

  async #look(text: string): Promise<void> {
    const found = await this.api.search(text).catch(() => null);
    if (!found || this.text.trim() !== text) return;
    this.hits = found.data;
    this.answered = text;
  }
}
