// Owns following the newest text: only while the reader is at the bottom, never against an upward scroll.

const AT_BOTTOM_PX = 24;

export class Follower {
  #pinned = true;
  #lastTop_px = 0;
  readonly #observer = new ResizeObserver(() => this.#grown());

  constructor(
    private readonly area: HTMLElement,
    content: HTMLElement,
    private readonly onChange: (pinned: boolean) => void,
  ) {
    this.#observer.observe(content);
    this.#observer.observe(area);
    area.addEventListener('scroll', this.#scrolled, { passive: true });
    this.toEnd();
  }

  stop(): void {
    this.#observer.disconnect();
    this.area.removeEventListener('scroll', this.#scrolled);
  }

  /** Goes to the newest text and follows it from there. */
  toEnd(): void {
    this.#pin(true);
    this.area.scrollTop = this.area.scrollHeight;
    this.#lastTop_px = this.area.scrollTop;
  }

  /** Shows an element instead of the newest text. */
  show(element: Element): void {
    this.#pin(false);
    this.area.scrollTop += element.getBoundingClientRect().top - this.area.getBoundingClientRect().top;
    this.#lastTop_px = this.area.scrollTop;
  }

  #grown(): void {
    if (this.#pinned) this.toEnd();
  }

  /** We only ever scroll down, so an upward move away from the end is the reader's. */
  #scrolled = (): void => {
    const { scrollTop, scrollHeight, clientHeight } = this.area;
    if (scrollHeight - clientHeight - scrollTop <= AT_BOTTOM_PX) this.#pin(true);
    else if (scrollTop < this.#lastTop_px - 1) this.#pin(false);
    this.#lastTop_px = scrollTop;
  };

  #pin(pinned: boolean): void {
    if (pinned === this.#pinned) return;
    this.#pinned = pinned;
    this.onChange(pinned);
  }
}
