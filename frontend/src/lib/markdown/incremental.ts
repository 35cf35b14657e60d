// Owns showing a growing text: blocks that can no longer change are sealed, only the last one is parsed again.
import type { Token } from 'markdown-it';

import { newEnv, parser, type ParseEnv } from './parser';
import { patchChildren } from './patch';
import { sanitise } from './policy';
import { completeLast, withoutBegunBlock } from './tail';
import { bindPlaceholders, widgets } from './widgets';

/** What is shown of an end that is still being written; by default what it will most likely be. */
export interface Tail {
  visible(live: string): string;
  complete(tokens: Token[], env: ParseEnv): void;
}

const LIKELY: Tail = { visible: withoutBegunBlock, complete: completeLast };

export class MarkdownView {
  #shown = '';
  #ended = false;
  /** Where the live part begins: in the text, and among the children of the root. */
  #sealedChars = 0;
  #sealedNodes = 0;
  #references: ParseEnv['references'] = {};

  constructor(
    private readonly root: HTMLElement,
    private readonly tail: Tail = LIKELY,
  ) {}

  /** Shows a text that mostly continues the last one. Any other text is shown too, from its start. */
  update(raw: string): void {
    const text = normalise(raw);
    if (text === this.#shown && !this.#ended) return;
    if (this.#ended || !text.startsWith(this.#shown)) this.#unseal();
    this.#shown = text;
    this.#showLive(text.slice(this.#sealedChars));
  }

  /** Shows the whole text by one parse: links whose target was defined later become links now. */
  end(raw: string): void {
    const text = normalise(raw);
    if (this.#ended && text === this.#shown) return;
    this.#unseal();
    this.#shown = text;
    this.#ended = true;
    const env = newEnv(text);
    const whole = render(parser.parse(text, env), env, true);
    patchChildren(this.root, 0, whole, widgets);
  }

  #unseal(): void {
    this.#sealedChars = 0;
    this.#sealedNodes = 0;
    this.#references = {};
    this.#ended = false;
  }

  #showLive(live: string): void {
    const { tokens, env } = this.#parseLive(live);
    const cut = sealableChars(tokens, live);
    if (cut === 0) {
      patchChildren(this.root, this.#sealedNodes, render(tokens, env), widgets);
      return;
    }
    const sealed = this.#renderText(live.slice(0, cut), this.#references);
    const sealedNodes = sealed.childNodes.length;
    const rest = this.#parseLive(live.slice(cut));
    sealed.append(render(rest.tokens, rest.env));
    patchChildren(this.root, this.#sealedNodes, sealed, widgets);
    this.#sealedChars += cut;
    this.#sealedNodes += sealedNodes;
  }

  #parseLive(live: string): { tokens: Token[]; env: ParseEnv } {
    const text = this.tail.visible(live);
    const env = newEnv(text, { ...this.#references });
    const tokens = parser.parse(text, env);
    this.tail.complete(tokens, env);
    return { tokens, env };
  }

  #renderText(text: string, references: ParseEnv['references']): DocumentFragment {
    const env = newEnv(text, references);
    return render(parser.parse(text, env), env);
  }
}

function render(tokens: Token[], env: ParseEnv, allClosed = false): DocumentFragment {
  const fragment = sanitise(parser.renderer.render(tokens, parser.options, env));
  if (allClosed) for (const content of env.contents) content.closed = true;
  bindPlaceholders(fragment, env.contents);
  dropBlankNodes(fragment);
  return fragment;
}

/** Newlines between blocks would make the number of nodes depend on where the text was cut. */
function dropBlankNodes(fragment: DocumentFragment): void {
  for (const node of Array.from(fragment.childNodes)) {
    if (node instanceof Text && node.data.trim() === '') node.remove();
  }
}

/** Line ends as Markdown counts them. A carriage return at the very end may be half a line end and is not shown yet. */
function normalise(raw: string): string {
  return raw.includes('\r') ? raw.replace(/\r$/, '').replace(/\r\n?/g, '\n') : raw;
}

/**
 * How much of the live text cannot change any more: all before the last block, once that block is certain.
 * A block is certain when its first line is complete (a table's second too: until then it may be a paragraph).
 * Lines between the last two blocks stay live: a link definition there may still swallow the lines after it.
 */
function sealableChars(tokens: Token[], live: string): number {
  const blocks = tokens.filter((token) => token.level === 0 && token.nesting >= 0 && token.map !== null);
  const last = blocks.at(-1);
  const previous = blocks.at(-2);
  if (!last?.map || !previous?.map) return 0;
  const needed = last.map[0] + (last.type === 'table_open' ? 2 : 1);
  if (charsOfLines(live, needed) === null) return 0;
  return charsOfLines(live, previous.map[1]) ?? 0;
}

/** The length of the first `count` lines with their line ends; null if there are fewer complete lines. */
function charsOfLines(text: string, count: number): number | null {
  let end = 0;
  for (let line = 0; line < count; line += 1) {
    const newline = text.indexOf('\n', end);
    if (newline === -1) return null;
    end = newline + 1;
  }
  return end;
}
