// Owns one block of code on the page: its language, its copy button, its text and when that is highlighted.
import { copyText } from '../clipboard';
import { downloadText, fileName } from '../download';
import { words } from '../words';
import { highlighted, isHighlighterReady, whenHighlighterReady } from './highlight';
import type { CodeText } from './parser';
import { patchChildren } from './patch';

/** Highlighting an open fence again in every frame is quadratic; past this size it waits for the closing fence. */
const LIVE_HIGHLIGHT_CHARS = 8 * 1024;
const HIGHLIGHT_CHARS = 100 * 1024;
const COPIED_MS = 2000;
const EXTENSIONS: Record<string, string> = {
  ...{ bash: 'sh', sh: 'sh', c: 'c', cpp: 'cpp', css: 'css', go: 'go', html: 'html', java: 'java', javascript: 'js' },
  ...{ js: 'js', json: 'json', markdown: 'md', md: 'md', python: 'py', py: 'py', ruby: 'rb', rust: 'rs', sql: 'sql' },
  ...{ typescript: 'ts', ts: 'ts', xml: 'xml', yaml: 'yaml', yml: 'yaml' },
};

export class CodeBlock {
  readonly kind = 'code';
  readonly element = document.createElement('div');
  readonly #label = document.createElement('span');
  readonly #pre = document.createElement('pre');
  readonly #code = document.createElement('code');
  #text: CodeText = { kind: 'code', text: '', language: '', closed: false };
  #highlighted = '';

  constructor(text: CodeText) {
    this.element.className = 'code-block';
    this.#label.className = 'code-lang';
    this.#pre.tabIndex = 0;
    this.#pre.dir = 'ltr';
    this.#pre.append(this.#code);
    const head = document.createElement('div');
    head.className = 'code-head';
    head.append(this.#label, this.#wrapButton(), this.#downloadButton(), this.#copyButton());
    this.element.append(head, this.#pre);
    this.#setLanguage(text.language);
    this.update(text);
  }

  update(next: CodeText): true {
    const before = this.#text;
    if (next.text === before.text && next.language === before.language && next.closed === before.closed) return true;
    this.#text = next;
    if (next.language !== before.language) this.#setLanguage(next.language);
    if (this.#wantsHighlight()) this.#highlight();
    else this.#showPlain(before.text);
    return true;
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

  #wrapButton(): HTMLButtonElement {
    const button = newButton('wrap-code', words.wrap);
    button.setAttribute('aria-pressed', 'false');
    button.addEventListener('click', () => {
      const wraps = this.element.classList.toggle('wrapped');
      button.setAttribute('aria-pressed', String(wraps));
    });
    return button;
  }

  #downloadButton(): HTMLButtonElement {
    const button = newButton('download-code', words.download);
    button.addEventListener('click', () => {
      const { text, language } = this.#text;
      downloadText(fileName('code', EXTENSIONS[language.toLowerCase()] ?? 'txt'), 'text/plain', text);
    });
    return button;
  }

  #copyButton(): HTMLButtonElement {
    const button = newButton('copy-code', words.copy);
    button.addEventListener('click', () => {
      void copyText(this.#text.text).then((copied) => {
        button.textContent = copied ? words.copied : words.copyFailed;
        setTimeout(() => (button.textContent = words.copy), COPIED_MS);
      });
    });
    return button;
  }
}

function newButton(testid: string, label: string): HTMLButtonElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'code-button';
  button.dataset.testid = testid;
  button.textContent = label;
  return button;
}
