// Owns following the newest text: only while the reader is at the bottom, never against an upward scroll.

const AT_BOTTOM_PX = 24;

/** Where somebody was: at the end, or so far down. */
export interface Place {
  pinned: boolean;
  top_px: number;
}

/** What only a person does: from then on a place that was kept is not gone back to. */
const BY_HAND = ['wheel', 'touchmove', 'pointerdown', 'keydown'] as const;

export class Follower {
  #pinned = true;
  #lastTop_px = 0;
  /** How far down to be while the content comes to its height, or is drawn anew; null where that is not there. */
  #wanted_px: (() => number | null) | null = null;
  readonly #observer = new ResizeObserver(() => this.grown());

  constructor(
    private readonly area: HTMLElement,
    content: HTMLElement,
    private readonly onChange: (pinned: boolean) => void,
    place: Place | null = null,
  ) {
    this.#observer.observe(content);
    this.#observer.observe(area);
    area.addEventListener('scroll', this.#scrolled, { passive: true });
    for (const kind of BY_HAND) area.addEventListener(kind, this.#taken, { passive: true });
    if (place === null || place.pinned) this.toEnd();
    else this.#goTo(() => place.top_px);
  }

  get place(): Place {
    return { pinned: this.#pinned, top_px: this.#lastTop_px };
  }

  stop(): void {
    this.#observer.disconnect();
    this.area.removeEventListener('scroll', this.#scrolled);
    for (const kind of BY_HAND) this.area.removeEventListener(kind, this.#taken);
  }

  /** Goes to the newest text and follows it from there. */
  toEnd(): void {
    this.#pin(true);
    this.#wanted_px = null;
    this.area.scrollTop = this.area.scrollHeight;
    this.#lastTop_px = this.area.scrollTop;
  }

  /** Shows an element instead of the newest text, until somebody scrolls. */
  show(find: () => Element | null): void {
    this.#goTo(() => {
      const element = find();
      if (element === null) return null;
      return this.area.scrollTop + element.getBoundingClientRect().top - this.area.getBoundingClientRect().top;
    });
  }

  /** Heights changed: what was in sight shall stay so. */
  grown(): void {
    if (this.#pinned) this.toEnd();
    else if (this.#wanted_px !== null) this.#goTo(this.#wanted_px);
  }

  #goTo(wanted_px: () => number | null): void {
    this.#pin(false);
    this.#wanted_px = wanted_px;
    const top_px = wanted_px();
    if (top_px === null) return;
    this.area.scrollTop = top_px;
    this.#lastTop_px = this.area.scrollTop;
  }

  #taken = (): void => {
    this.#wanted_px = null;
  };

  /** We only ever scroll down, so an upward move away from the end is the reader's. */
  #scrolled = (): void => {
    const { scrollTop, scrollHeight, clientHeight } = this.area;
    if (this.#wanted_px !== null) return;
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
