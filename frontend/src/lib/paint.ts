// Owns when the page is painted: once per animation frame, by a timer where frames do not come (hidden tabs).

const HIDDEN_MS = 200;

const dirty = new Set<() => void>();
let frame = 0;
let timer = 0;

/** Runs `paint` once before the next frame, however often it is asked for. */
export function paintSoon(paint: () => void): void {
  dirty.add(paint);
  if (frame !== 0) return;
  frame = requestAnimationFrame(flush);
  // A tab may be hidden between now and the frame, so the timer is always set.
  timer = window.setTimeout(flush, HIDDEN_MS);
}

function flush(): void {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = timer = 0;
  const paints = [...dirty];
  dirty.clear();
  for (const paint of paints) paint();
}
