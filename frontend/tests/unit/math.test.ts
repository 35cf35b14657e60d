// Laws of math: what is a formula and what is a price, MathML and nothing that could do harm, TeX where it is broken.
import { expect, it, vi } from 'vitest';

import { MarkdownView } from '../../src/lib/markdown/incremental';

function view(text: string): HTMLElement {
  const root = document.createElement('div');
  new MarkdownView(root).end(text);
  return root;
}

const sources = (text: string): (string | null)[] => Array.from(view(text).querySelectorAll('.math')).map((math) => math.textContent);

it('tells formulas from prices, code and escapes', () => {
  expect(sources('$x^2$, \\(y\\), $$z$$ and\n\n$$\na\n+ b\n$$\n\n\\[ c \\]')).toEqual(['x^2', 'y', 'z', 'a\n+ b', 'c']);
  for (const text of ['$5 and $6', 'a $ b $ c', '`$x$`', '\\$x$', '```\n$$\nx\n$$\n```', '$20-$30', 'US$ 5, 6$']) {
    expect(sources(text), text).toEqual([]);
  }
});

it('draws MathML, in the line and as a block', async () => {
  const root = view('$\\frac{1}{2}$ and\n\n$$\\sqrt{x}$$');
  await vi.waitFor(() => expect(root.querySelectorAll('math')).toHaveLength(2), 50_000);
  expect(root.querySelector('span.math mfrac')).not.toBeNull();
  expect(root.querySelector('div.math.block msqrt')).not.toBeNull();
  expect(root.querySelectorAll('[style], annotation')).toHaveLength(0);
});

it('leaves what is broken or could do harm as it was written', async () => {
  const root = view('$\\frac{$ $\\href{javascript:window.__xss=1}{x}$ $\\includegraphics{https://evil.example/x.png}$ $ok$');
  await vi.waitFor(() => expect(root.querySelector('math')).not.toBeNull(), 50_000);
  expect(root.querySelectorAll('a, img, [href], [src], [style]')).toHaveLength(0);
});

it('shows a block as its source until it is whole', () => {
  const root = document.createElement('div');
  const growing = new MarkdownView(root);
  growing.update('Look:\n\n$$\n\\frac{a}');
  expect(root.querySelector('.math.block.source')?.textContent).toBe('\\frac{a}');
  const element = root.querySelector('.math.block');
  growing.update('Look:\n\n$$\n\\frac{a}{b}\n$$\n');
  expect(root.querySelector('.math.block')).toBe(element);
});
