// Owns one formula on the page: its TeX until it is whole and KaTeX is there, then MathML. KaTeX is a chunk of its own.
import type { MathText } from './math_syntax';

const LONGEST_CHARS = 10_000;
/** What a formula's macros may grow to. */
const MAX_EXPAND = 1000;

type Render = (tex: string, element: HTMLElement, options: object) => void;
let loading: Promise<Render | null> | null = null;

function katex(): Promise<Render | null> {
  loading ??= import('katex').then(
    (module) => module.default.render as Render,
    () => {
      loading = null; // TeX can be read too; the next formula asks again
      return null;
    },
  );
  return loading;
}

export class MathBlock {
  readonly kind = 'math';
  readonly element: HTMLElement;
  #shown: MathText | null = null;

  constructor(math: MathText) {
    this.element = document.createElement(math.display ? 'div' : 'span');
    this.element.dir = 'ltr';
    this.update(math);
  }

  /** False where another element is needed. */
  update(next: MathText): boolean {
    const before = this.#shown;
    if (before && before.display !== next.display) return false;
    if (before?.tex === next.tex && before.closed === next.closed) return true;
    this.#shown = next;
    if (before?.tex !== next.tex || this.element.firstElementChild === null) this.#showSource(next);
    if (next.closed && next.tex.length <= LONGEST_CHARS) void this.#draw(next);
    return true;
  }

  #showSource(math: MathText): void {
    this.element.className = math.display ? 'math block source' : 'math source';
    this.element.textContent = math.tex;
  }

  async #draw(math: MathText): Promise<void> {
    const render = await katex();
    if (!render || this.#shown !== math) return;
    const drawn = document.createElement('span');
    try {
      // `trust` stays off: no links, images or styles out of a formula.
      render(math.tex, drawn, { output: 'mathml', displayMode: math.display, maxExpand: MAX_EXPAND, throwOnError: true, strict: 'ignore' });
    } catch {
      return; // no formula after all: its source stays
    }
    for (const annotation of Array.from(drawn.getElementsByTagName('annotation'))) annotation.remove();
    this.element.classList.remove('source');
    this.element.replaceChildren(...drawn.childNodes);
  }
}
