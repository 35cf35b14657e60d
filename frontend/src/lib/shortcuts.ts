// Owns which keys do what anywhere on the page. Does none of it.

export type Action = 'new' | 'search' | 'composer' | 'copy' | 'sidebar' | 'undo' | 'help';

interface Shortcut {
  action: Action;
  keys: string;
  fits(event: KeyboardEvent): boolean;
}

const withControl = (event: KeyboardEvent): boolean => (event.ctrlKey || event.metaKey) && !event.altKey;
const shifted = (key: string) => (event: KeyboardEvent) =>
  withControl(event) && event.shiftKey && event.key.toLowerCase() === key;
const bare = (key: string) => (event: KeyboardEvent) =>
  event.key === key && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target);

export const SHORTCUTS: Shortcut[] = [
  { action: 'new', keys: 'Ctrl Shift O', fits: shifted('o') },
  { action: 'search', keys: 'Ctrl K', fits: (event) => withControl(event) && !event.shiftKey && event.key === 'k' },
  { action: 'composer', keys: '/', fits: bare('/') },
  { action: 'copy', keys: 'Ctrl Shift Y', fits: shifted('y') },
  { action: 'sidebar', keys: 'Ctrl Shift S', fits: shifted('s') },
  { action: 'undo', keys: 'Ctrl Z', fits: (event) => withControl(event) && !event.shiftKey && event.key === 'z' && !isTyping(event.target) },
  { action: 'help', keys: '?', fits: bare('?') },
];

export function actionOf(event: KeyboardEvent): Action | null {
  if (event.isComposing || event.defaultPrevented) return null;
  return SHORTCUTS.find((shortcut) => shortcut.fits(event))?.action ?? null;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null;
}
