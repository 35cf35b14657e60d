// Owns how often an expensive text is shown: a text that takes long to show is shown less often, never late at its end.
import { MarkdownView } from './incremental';

const CHEAP_MS = 8;
const REST_FACTOR = 3;

export class PacedView {
  readonly #view: MarkdownView;
  #newest = '';
  #timer = 0;
  #restUntil_ms = 0;

  constructor(root: HTMLElement) {
    this.#view = new MarkdownView(root);
  }

  update(text: string): void {
    this.#newest = text;
    if (this.#timer !== 0) return;
    const rest_ms = this.#restUntil_ms - performance.now();
    if (rest_ms > 0) this.#timer = window.setTimeout(() => this.#show(), rest_ms);
    else this.#show();
  }

  end(text: string): void {
    this.stop();
    this.#view.end(text);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  #show(): void {
    this.#timer = 0;
    const started_ms = performance.now();
    this.#view.update(this.#newest);
    const cost_ms = performance.now() - started_ms;
    this.#restUntil_ms = cost_ms > CHEAP_MS ? started_ms + cost_ms * (1 + REST_FACTOR) : 0;
  }
}
