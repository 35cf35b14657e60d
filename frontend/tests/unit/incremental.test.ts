// Laws of the incremental renderer: at every prefix it shows what a parse of the whole prefix shows.
import MarkdownIt from 'markdown-it';
import { beforeAll, describe, expect, it, vi } from 'vitest';

import { loadHighlighter } from '../../src/lib/markdown/highlight';
import { MarkdownView, type Tail } from '../../src/lib/markdown/incremental';
import { TRICKY } from './tricky_texts';

// The sanitiser has laws of its own (policy.test.ts) and is slow in jsdom; thousands of prefixes do without it here.
vi.mock('../../src/lib/markdown/policy', () => ({
  sanitise: (html: string) => {
    const template = document.createElement('template');
    template.innerHTML = html;
    return template.content;
  },
}));

beforeAll(() => loadHighlighter());

/** Whether blocks are sealed rightly shows on texts whose ends are left alone; tail.test.ts has the laws of ends. */
const AS_IT_IS: Tail = { visible: (live) => live, complete: () => undefined };

function whole(text: string): HTMLElement {
  const root = document.createElement('div');
  new MarkdownView(root).end(text);
  return root;
}

function shownText(root: HTMLElement): string {
  const copy = root.cloneNode(true) as HTMLElement;
  for (const head of Array.from(copy.getElementsByClassName('code-head'))) head.remove();
  return copy.textContent.replace(/\s+/g, ' ').trim();
}

describe.each(TRICKY)('$name', ({ text, lateReference }) => {
  it('reads at every prefix like a parse of the whole prefix, and ends in the same nodes', () => {
    const root = document.createElement('div');
    const view = new MarkdownView(root, AS_IT_IS);
    for (let end = 1; end <= text.length; end += 1) {
      const prefix = text.slice(0, end);
      view.update(prefix);
      if (!lateReference) expect(root.textContent, JSON.stringify(prefix)).toBe(whole(prefix).textContent);
    }
    view.end(text);
    expect(root.isEqualNode(whole(text)), root.innerHTML).toBe(true);
  });

  it('shows no other nodes than a parse of the whole while it grows by uneven pieces', () => {
    for (const step of [3, 7, 19]) {
      const root = document.createElement('div');
      const view = new MarkdownView(root, AS_IT_IS);
      for (let end = step; end < text.length + step; end += step) view.update(text.slice(0, end));
      if (!lateReference) expect(uncoloured(root).isEqualNode(uncoloured(whole(text))), root.innerHTML).toBe(true);
    }
  });
});

/** The nodes without the colours of code, which an open fence may get later. */
function uncoloured(root: HTMLElement): HTMLElement {
  const copy = root.cloneNode(true) as HTMLElement;
  for (const code of Array.from(copy.getElementsByTagName('code'))) code.textContent = code.textContent;
  copy.normalize();
  return copy;
}

it('shows the words that plain markdown-it shows', () => {
  for (const { name, text } of TRICKY) {
    if (/images|links|addresses|brackets|math/.test(name)) continue; // shown in our own way
    const plain = document.createElement('div');
    const markdown = new MarkdownIt({ html: false, linkify: true });
    markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
    plain.innerHTML = markdown.render(text);
    expect(shownText(whole(text)).replace(/\s/g, ''), name).toBe(plain.textContent.replace(/\s/g, ''));
  }
});

it('keeps the nodes of sealed blocks, so that a selection in them survives', () => {
  const root = document.createElement('div');
  const view = new MarkdownView(root);
  view.update('first paragraph\n\n```js\nlet a = 1;\n```\n\nthird\n\n');
  const before = Array.from(root.children);
  const text = root.firstChild!.firstChild!;
  for (const more of ['four', 'four and more\n\n- five', 'four and more\n\n- five\n\nsix']) {
    view.update(`first paragraph\n\n\`\`\`js\nlet a = 1;\n\`\`\`\n\nthird\n\n${more}`);
  }
  view.end('first paragraph\n\n```js\nlet a = 1;\n```\n\nthird\n\nfour and more\n\n- five\n\nsix');
  expect(Array.from(root.children).slice(0, 3)).toEqual(before);
  expect(root.firstChild!.firstChild).toBe(text);
});

it('appends to the text node of a growing paragraph instead of replacing it', () => {
  const root = document.createElement('div');
  const view = new MarkdownView(root);
  view.update('hello');
  const node = root.firstChild!.firstChild!;
  view.update('hello wor');
  view.update('hello world');
  expect(root.firstChild!.firstChild).toBe(node);
  expect(node.textContent).toBe('hello world');
});

it('shows another text from its start when the log was replaced', () => {
  const root = document.createElement('div');
  const view = new MarkdownView(root);
  view.update('# old\n\npara\n\n- list\n- list');
  view.update('new');
  expect(root.innerHTML).toBe(whole('new').innerHTML);
  view.end('new text');
  view.update('new text goes on\n\nfurther');
  expect(root.textContent).toBe(whole('new text goes on\n\nfurther').textContent);
});

it('colours a small fence while it grows and a large one when it closes', () => {
  const root = document.createElement('div');
  const view = new MarkdownView(root);
  const spans = () => root.querySelectorAll('code span').length;
  const head = '```python\nimport os\n';
  view.update(head);
  expect(spans()).toBeGreaterThan(0);
  const atFirst = spans();
  const big = head + 'x = "text"\n'.repeat(1200);
  view.update(big);
  expect(spans()).toBe(atFirst);
  view.update(`${big}\`\`\`\n`);
  expect(spans()).toBeGreaterThan(1000);
  expect(root.querySelector('code')!.textContent).toBe(big.slice(10));
});

it('does work on the live block only: a sealed block is not touched again', () => {
  const root = document.createElement('div');
  const view = new MarkdownView(root);
  let text = '';
  for (let block = 0; block < 200; block += 1) {
    text += `Paragraph ${block} with **bold** words.\n\n`;
    view.update(text);
  }
  let touched = 0;
  const observer = new MutationObserver(() => undefined);
  observer.observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
  view.update(`${text}The last one`);
  touched += observer.takeRecords().length;
  view.update(`${text}The last one grows`);
  touched += observer.takeRecords().length;
  observer.disconnect();
  expect(touched).toBeLessThanOrEqual(2);
});
