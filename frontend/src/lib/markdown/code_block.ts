// Owns one block of code on the page: its language, its copy button, its text and when that is highlighted.
import { copyText } from '../clipboard';
import { words } from '../words';
import { highlighted, isHighlighterReady, whenHighlighterReady } from './highlight';
import type { CodeText } from './parser';
import { patchChildren, type Widgets } from './patch';

/** Highlighting an open fence again in every frame is quadratic; past this size it waits for the closing fence. */
const LIVE_HIGHLIGHT_CHARS = 8 * 1024;
const HIGHLIGHT_CHARS = 100 * 1024;
const COPIED_MS = 2000;

const blocks = new WeakMap<Node, CodeBlock>();
const placeholders = new WeakMap<Node, CodeText>();

/** Remembers what each placeholder of a sanitised fragment stands for. */
export function bindPlaceholders(fragment: DocumentFragment, codes: CodeText[]): void {
  if (codes.length === 0) return;
  for (const placeholder of Array.from(fragment.querySelectorAll('pre'))) {
    const code = codes[Number(placeholder.getAttribute('data-code'))];
    if (code) placeholders.set(placeholder, code);
  }
}

/** How the patcher shows placeholders: as code blocks that are updated in place. */
export const codeWidgets: Widgets = {
  update(old, next) {
    const block = blocks.get(old);
    const code = placeholders.get(next);
    if (block && code) block.update(code);
    else if (block || code) old.replaceWith(codeWidgets.create(next));
    return block !== undefined || code !== undefined;
  },
  create(next) {
    const code = placeholders.get(next);
    if (code) return new CodeBlock(code).element;
    for (const inner of next instanceof Element ? Array.from(next.getElementsByTagName('pre')) : []) {
      inner.replaceWith(codeWidgets.create(inner));
    }
    return next;
  },
};

class CodeBlock {
  readonly element = document.createElement('div');
  readonly #label = document.createElement('span');
  readonly #pre = document.createElement('pre');
  readonly #code = document.createElement('code');
  #text: CodeText = { text: '', language: '', closed: false };
  #highlighted = '';

  constructor(text: CodeText) {
    this.element.className = 'code-block';
    this.#label.className = 'code-lang';
    this.#pre.tabIndex = 0;
    this.#pre.dir = 'ltr';
    this.#pre.append(this.#code);
    const head = document.createElement('div');
    head.className = 'code-head';
    head.append(this.#label, this.#copyButton());
    this.element.append(head, this.#pre);
    blocks.set(this.element, this);
    this.#setLanguage(text.language);
    this.update(text);
  }

  update(next: CodeText): void {
    const before = this.#text;
    if (next.text === before.text && next.language === before.language && next.closed === before.closed) return;
    this.#text = next;
    if (next.language !== before.language) this.#setLanguage(next.language);
    if (this.#wantsHighlight()) this.#highlight();
    else this.#showPlain(before.text);
  }

  #wantsHighlight(): boolean {
    const { text, language, closed } = this.#text;
    return language !== '' && text.length <= (closed ? HIGHLIGHT_CHARS : LIVE_HIGHLIGHT_CHARS);
  }

  #highlight(): void {
    if (!isHighlighterReady()) {
      this.#showPlain(null);
      whenHighlighterReady(() => this.#wantsHighlight() && this.#highlight());
      return;
    }
    const { text, language } = this.#text;
    const version = `${language}\n${text}`;
    if (this.#highlighted === version) return;
    this.#highlighted = version;
    patchChildren(this.#code, 0, highlighted(text, language));
  }

  /** Appends what is new when the shown text only grew, so that what is highlighted already stays. */
  #showPlain(before: string | null): void {
    const { text } = this.#text;
    if (before !== null && text.startsWith(before) && this.#code.textContent === before) {
      const last = this.#code.lastChild;
      if (last instanceof Text) last.appendData(text.slice(before.length));
      else this.#code.append(text.slice(before.length));
    } else if (this.#code.textContent !== text) {
      this.#code.textContent = text;
    }
  }

  #setLanguage(language: string): void {
    this.#label.textContent = language || words.plainText;
    this.#pre.setAttribute('role', 'region');
    this.#pre.setAttribute('aria-label', words.codeIn(language));
  }

  #copyButton(): HTMLButtonElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'code-copy';
    button.dataset.testid = 'copy-code';
    button.textContent = words.copy;
    button.addEventListener('click', () => {
      void copyText(this.#text.text).then((copied) => {
        button.textContent = copied ? words.copied : words.copyFailed;
        setTimeout(() => (button.textContent = words.copy), COPIED_MS);
      });
    });
    return button;
  }
}
