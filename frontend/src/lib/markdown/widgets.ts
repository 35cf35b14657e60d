// Owns what is shown in the place of parsed placeholders: code blocks and formulas, updated in place.
import { CodeBlock } from './code_block';
import { MathBlock } from './math';
import type { MathText } from './math_syntax';
import type { CodeText } from './parser';
import type { Widgets } from './patch';

export type Content = CodeText | MathText;

const PLACEHOLDER = '[data-content]';
const shown = new WeakMap<Node, CodeBlock | MathBlock>();
const placeholders = new WeakMap<Node, Content>();

/** Remembers what each placeholder of a sanitised fragment stands for. */
export function bindPlaceholders(fragment: DocumentFragment, contents: Content[]): void {
  if (contents.length === 0) return;
  for (const placeholder of Array.from(fragment.querySelectorAll(PLACEHOLDER))) {
    const content = contents[Number(placeholder.getAttribute('data-content'))];
    if (content) placeholders.set(placeholder, content);
  }
}

export const widgets: Widgets = {
  update(old, next) {
    const block = shown.get(old);
    const content = placeholders.get(next);
    if (!block && !content) return false;
    if (!block || !content || !updated(block, content)) old.replaceWith(widgets.create(next));
    return true;
  },
  create(next) {
    const content = placeholders.get(next);
    if (content) return made(content);
    for (const inner of next instanceof Element ? Array.from(next.querySelectorAll(PLACEHOLDER)) : []) {
      inner.replaceWith(widgets.create(inner));
    }
    return next;
  },
};

function made(content: Content): HTMLElement {
  const block = content.kind === 'code' ? new CodeBlock(content) : new MathBlock(content);
  shown.set(block.element, block);
  return block.element;
}

function updated(block: CodeBlock | MathBlock, content: Content): boolean {
  if (block.kind === 'code') return content.kind === 'code' && block.update(content);
  return content.kind === 'math' && block.update(content);
}
