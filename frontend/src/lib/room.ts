// Owns the room below a question that was just asked: it stands at the top, and its answer fills what is below.

const GAP_PX = 12;

export class Room {
  #answer: HTMLElement | null = null;
  /** Not the answer, which grows with every frame: how high it must be depends on the others alone. */
  readonly #observer = new ResizeObserver(() => this.#fit());

  constructor(
    private readonly area: HTMLElement,
    private readonly content: HTMLElement,
    /** The end of the content is elsewhere now. */
    private readonly onFitted: () => void,
  ) {}

  /** Makes the newest answer so high that its question is at the top when the end is shown; null: no answer is. */
  give(answer: HTMLElement | null): void {
    if (this.#answer === answer) return;
    this.#answer?.style.removeProperty('min-height');
    this.#observer.disconnect();
    this.#answer = answer;
    if (!answer) return;
    for (const element of [this.area, answer.previousElementSibling]) if (element) this.#observer.observe(element);
    this.#fit();
  }

  stop(): void {
    this.#observer.disconnect();
  }

  #fit(): void {
    const question = this.#answer?.previousElementSibling;
    if (!this.#answer || !question) return;
    const place = this.#answer.getBoundingClientRect();
    const above_px = place.top - question.getBoundingClientRect().top;
    const below_px = this.content.getBoundingClientRect().bottom - place.bottom;
    this.#answer.style.minHeight = `${Math.max(0, this.area.clientHeight - above_px - below_px - GAP_PX)}px`;
    this.onFitted();
  }
}
