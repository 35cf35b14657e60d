// Owns the height that is left where an on-screen keyboard covers the page instead of resizing it (Safari). Scrolls no log.

/** As in layout.css. */
const SEEN_HEIGHT = '--seen-height';

export function followKeyboard(seen: VisualViewport, style: CSSStyleDeclaration): void {
  seen.addEventListener('resize', () => {
    // Who zooms in sees less too, but wants the page as it is.
    const isCovered = Math.abs(seen.scale - 1) < 0.01 && seen.height < innerHeight - 1;
    if (!isCovered) return void style.removeProperty(SEEN_HEIGHT);
    style.setProperty(SEEN_HEIGHT, `${seen.height}px`);
    scrollTo(0, 0); // Safari moves the page up, so that the box would be seen
  });
}
