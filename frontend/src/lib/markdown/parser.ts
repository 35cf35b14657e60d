// Owns how Markdown becomes HTML text: raw HTML off, images as links, code and math as placeholders. Its output is not trusted yet.
import MarkdownIt, { type Env, type MarkdownIt as Parser, type RendererRule, type Token } from 'markdown-it';

import { words } from '../words';
import { addMath, type MathText } from './math_syntax';
import { hostOf, isSafeUrl } from './urls';

export interface CodeText {
  kind: 'code';
  text: string;
  language: string;
  closed: boolean;
}

/** What one parse needs and leaves behind: link definitions, and what placeholders stand for. */
export interface ParseEnv extends Env {
  references: Record<string, { title: string; href: string }>;
  contents: (CodeText | MathText)[];
  source: string;
}

const HEADING_SHIFT = 2; // the page's title is h1, a message's heading h2
const DIRECTED = new Set(['paragraph_open', 'heading_open', 'list_item_open', 'blockquote_open', 'th_open', 'td_open']);
const LISTS = new Set(['bullet_list_open', 'ordered_list_open']);

export function newEnv(source: string, references: ParseEnv['references'] = {}): ParseEnv {
  return { references, contents: [], source };
}

function createParser(): Parser {
  const md = new MarkdownIt({ html: false, linkify: true, typographer: false });
  md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
  md.validateLink = isSafeUrl;
  md.core.ruler.push('tasks', (state) => state.tokens.forEach(asTask));
  md.core.ruler.push('dress', (state) => state.tokens.forEach(dress));
  md.renderer.rules.fence = md.renderer.rules.code_block = codePlaceholder;
  md.renderer.rules.math = mathPlaceholder;
  addMath(md);
  md.renderer.rules.image = imageAsLink;
  md.renderer.rules.table_open = () => '<div class="table-wrap"><table>';
  md.renderer.rules.table_close = () => '</table></div>';
  return md;
}

/** The box of a task list, which nobody can tick. */
export function asTask(token: Token, index: number, tokens: Token[]): void {
  const item = tokens[index - 2];
  const first = token.children?.[0];
  if (token.type !== 'inline' || item?.type !== 'list_item_open' || first?.type !== 'text') return;
  const box = /^\[([ xX])\](?:\s|$)/.exec(first.content);
  if (!box) return;
  first.content = `${box[1] === ' ' ? '☐' : '☑'} ${first.content.slice(box[0].length)}`;
  item.attrSet('class', 'task');
}

/** Direction per block, headings below the page's own, alignment as a class (the page forbids style attributes). */
function dress(token: Token): void {
  if (DIRECTED.has(token.type) || LISTS.has(token.type)) token.attrSet('dir', 'auto');
  if (token.type === 'heading_open' || token.type === 'heading_close') {
    const level = Number(token.tag.slice(1));
    if (token.nesting === 1) token.attrSet('class', `md-h${level}`);
    token.tag = `h${Math.min(6, level + HEADING_SHIFT)}`;
  }
  const alignment = /^text-align:(left|center|right)$/.exec(String(token.attrGet('style') ?? ''));
  if (token.attrs) token.attrs = token.attrs.filter(([name]) => name !== 'style');
  if (alignment) token.attrSet('class', `ta-${alignment[1]}`);
}

const codePlaceholder: RendererRule = (tokens, index, _options, env) => {
  const token = tokens[index]!;
  const { contents, source } = env as ParseEnv;
  const language = /^[^\s{]{0,40}/.exec(token.info.trim())![0];
  const closed = token.type === 'code_block' || isClosed(token, source);
  contents.push({ kind: 'code', text: token.content, language, closed });
  return `<pre data-content="${contents.length - 1}"></pre>\n`;
};

const mathPlaceholder: RendererRule = (tokens, index, _options, env) => {
  const { contents } = env as ParseEnv;
  const math = { ...(tokens[index]!.meta as unknown as MathText) };
  contents.push(math);
  const tag = math.display ? 'div' : 'span';
  return `<${tag} data-content="${contents.length - 1}"></${tag}>`;
};

/** Only decides when to highlight a long fence; being wrong costs time, not correctness. */
function isClosed(token: Token, source: string): boolean {
  if (!token.map || token.map[1] - token.map[0] < 2) return false;
  const lastLine = source.split('\n')[token.map[1] - 1] ?? '';
  return lastLine.replace(/^[\s>]*/, '').trimEnd().startsWith(token.markup);
}

const imageAsLink: RendererRule = (tokens, index, options, env, renderer) => {
  const token = tokens[index]!;
  const url = String(token.attrGet('src') ?? '');
  const alt = renderer.renderInlineAsText(token.children ?? [], options, env);
  const label = escape(`${words.image}: ${alt || hostOf(url)}`);
  if (isInsideLink(tokens, index)) return `<span class="image-link">${label}</span>`;
  return `<a class="image-link" href="${escape(url)}">${label}</a>`;
};

function isInsideLink(tokens: Token[], index: number): boolean {
  let depth = 0;
  for (const token of tokens.slice(0, index)) {
    if (token.type === 'link_open') depth += 1;
    if (token.type === 'link_close') depth -= 1;
  }
  return depth > 0;
}

function escape(text: string): string {
  return parser.utils.escapeHtml(text);
}

export const parser = createParser();
