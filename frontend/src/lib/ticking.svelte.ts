// Owns a clock that a component may show: it ticks only while somebody counts.

const TICK_MS = 250;

export class Ticking {
  now_ms = $state(0);

  /** To be called while a component is made. */
  constructor(now_ms: () => number, isCounting: () => boolean) {
    $effect(() => {
      if (!isCounting()) return;
      this.now_ms = now_ms();
      const ticker = setInterval(() => (this.now_ms = now_ms()), TICK_MS);
      return () => clearInterval(ticker);
    });
  }
}
