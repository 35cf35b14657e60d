// Owns colouring code. The languages come in a chunk of their own, asked for by the first code that needs them.
import type { HLJSApi } from 'highlight.js';

let engine: HLJSApi | null = null;
let loading: Promise<void> | null = null;
const waiting = new Set<() => void>();

export const isHighlighterReady = (): boolean => engine !== null;

export function loadHighlighter(): Promise<void> {
  loading ??= import('./languages').then(
    (module) => {
      engine = module.default;
      for (const callback of waiting) callback();
      waiting.clear();
    },
    () => {
      loading = null; // code stays readable without colours; the next block asks again
    },
  );
  return loading;
}

export function whenHighlighterReady(callback: () => void): void {
  waiting.add(callback);
  void loadHighlighter();
}

/** The text as coloured nodes; plain where the language is not known. */
export function highlighted(text: string, language: string): DocumentFragment {
  const wanted = document.createDocumentFragment();
  const known = engine?.getLanguage(language);
  if (engine && known) wanted.append(nodesOf(engine.highlight(text, { language, ignoreIllegals: true }).value));
  else wanted.append(text);
  return wanted;
}

const ENTITIES: Record<string, string> = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#x27;': "'" };
const PIECE = /<span class="([\w\s-]*)">|<\/span>|&(?:amp|lt|gt|quot|#x27);|[^<&]+|[<&]/g;

/** Builds nodes from the highlighter's output without an HTML parser: spans with a class, and text, nothing else. */
export function nodesOf(html: string): DocumentFragment {
  const root = document.createDocumentFragment();
  let parent: Node = root;
  let text = '';
  const flush = () => {
    if (text !== '') parent.appendChild(document.createTextNode(text));
    text = '';
  };
  for (const match of html.matchAll(PIECE)) {
    const piece = match[0];
    if (match[1] !== undefined) {
      flush();
      const span = document.createElement('span');
      span.className = match[1];
      parent = parent.appendChild(span);
    } else if (piece === '</span>') {
      flush();
      parent = parent.parentNode ?? root;
    } else {
      text += ENTITIES[piece] ?? piece;
    }
  }
  flush();
  return root;
}
