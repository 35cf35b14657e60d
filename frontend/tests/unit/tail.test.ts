// Laws of unfinished ends: what is shown only grows, and no mark is seen that the whole does not show.
import { beforeAll, describe, expect, it, vi } from 'vitest';

import { loadHighlighter } from '../../src/lib/markdown/highlight';
import { MarkdownView } from '../../src/lib/markdown/incremental';
import { completed, withoutBegunBlock } from '../../src/lib/markdown/tail';
import { TRICKY } from './tricky_texts';

vi.mock('../../src/lib/markdown/policy', () => ({
  sanitise: (html: string) => {
    const template = document.createElement('template');
    template.innerHTML = html;
    return template.content;
  },
}));

beforeAll(() => loadHighlighter());

/** Shown text without white space, and without the labels of code, which come before it. */
function read(root: HTMLElement): string {
  const copy = root.cloneNode(true) as HTMLElement;
  for (const head of Array.from(copy.getElementsByClassName('code-head'))) head.remove();
  return copy.textContent.replace(/\s+/g, '');
}

function view(text: string, how: 'update' | 'end'): HTMLElement {
  const root = document.createElement('div');
  new MarkdownView(root)[how](text);
  return root;
}

/** What models write, each with ends that flash where they are not taken care of. */
const PLAIN = [
  'Some **bold words** and *slanted ones*, ***both***, ~~gone~~, __strong__, _soft_ end.',
  'A **bold with `code` and *more* inside** it.\n\nNext **para\nover lines** end.',
  'See [the docs](https://docs.example/a_b "title") and [**bold** link](https://b.example/(x)) there.',
  'An image ![alt text](https://i.example/x.png) here, [![in](https://i.example/y.png)](https://a.example) too.',
  'Code `a * b` and ``x ` y`` here, `**no**` end.',
  'Before\n\n| a | b |\n|:--|--:|\n| **1** | `2` |\n| [x](https://x.example) | 4 |\n\nafter',
  'Text:\n- one\n- **two**\n  1. three\n  2. four\n\n* * *\n\n> quoted *words*\n\n## Head `x`\n\nend',
  'Text\n```python\nx = [1, 2] ** 3  # `no` **mark**\n---\n| a |\n```\nend',
  'A formula $x^2 + y$ and \\(z\\) cost $5 or $6.\n\n$$\n\\frac{a}{b}\n$$\n\nend',
  'To do:\n\n- [ ] **one**\n- [x] two, see [the list](https://l.example)\n\nend',
  'Prices: 2 * 3 * 4, a*b, snake_case_name done! Really?! 5. end',
];

describe.each(PLAIN)('%s', (text) => {
  it('shows at every prefix the beginning of what it shows at the end', () => {
    const whole = read(view(text, 'end'));
    const root = document.createElement('div');
    const growing = new MarkdownView(root);
    for (let end = 1; end <= text.length; end += 1) {
      growing.update(text.slice(0, end));
      expect(whole.startsWith(read(root)), `${text.slice(0, end)} -> ${read(root)}`).toBe(true);
    }
    growing.end(text);
    expect(read(root)).toBe(whole);
  });
});

it.each(TRICKY)('$name: growing text shows what the same text shows at once', ({ text, lateReference }) => {
  const root = document.createElement('div');
  const growing = new MarkdownView(root);
  for (let end = 1; end <= text.length; end += 3) {
    const prefix = text.slice(0, end);
    growing.update(prefix);
    if (!lateReference) expect(read(root), JSON.stringify(prefix)).toBe(read(view(prefix, 'update')));
  }
});

it('completes and holds back', () => {
  const cases: [string, string][] = [
    ['a **b', 'a **b**'],
    ['a **b ', 'a **b**'],
    ['a **', 'a '],
    ['**b *c', '**b *c***'],
    ['a `b', 'a `b`'],
    ['[label', 'label'],
    ['[label](https://x', 'label'],
    ['![alt](https://x', ''],
    ['[label](https://x/(y)', 'label'],
    ['x[0', 'x[0'],
    ['2 * 3', '2 * 3'],
    ['a\\*b', 'a\\*b'],
    ['Hello!', 'Hello!'],
  ];
  for (const [given, wanted] of cases) expect(completed(given), given).toBe(wanted);
  for (const line of ['#', '##', '-', '- ', '1', '12.', '---', '```', '| a | b', '| a |\n|--', '> ', '===']) {
    expect(withoutBegunBlock(`text\n${line}`).trim(), line).toBe('text');
  }
  expect(withoutBegunBlock('text\n# H')).toBe('text\n# H');
  expect(withoutBegunBlock('| a |\n|---|\n| b')).toBe('| a |\n|---|\n| b');
});

it('is quick on what never closes', () => {
  for (const piece of ['[', '*a', '`', '![', '[a](', '_b ', '~~', '| a ']) {
    const text = piece.repeat(50_000 / piece.length);
    expect(completed(text).length).toBeLessThan(2 * text.length);
    expect(view(text, 'update').textContent.length).toBeLessThanOrEqual(text.length);
  }
});
