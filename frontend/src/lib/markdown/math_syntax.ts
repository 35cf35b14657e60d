// Owns where math stands in Markdown: $…$, \(…\) in a line, $$…$$ and \[…\] as blocks. Draws nothing.
import type { MarkdownIt as Parser, Token } from 'markdown-it';

export interface MathText {
  kind: 'math';
  tex: string;
  display: boolean;
  closed: boolean;
}

type InlineRule = Parameters<Parser['inline']['ruler']['before']>[2];
type BlockRule = Parameters<Parser['block']['ruler']['before']>[2];

const BLOCKS: Record<string, string> = { '$$': '$$', '\\[': '\\]' };

export function addMath(md: Parser): void {
  md.inline.ruler.before('escape', 'math', inline);
  md.block.ruler.before('fence', 'math', block, { alt: ['paragraph', 'reference', 'blockquote', 'list'] });
}

const inline: InlineRule = (state, silent) => {
  const found = inlineAt(state.src, state.pos);
  if (!found) return false;
  if (!silent) push(state.push('math', '', 0), found.tex, false, true);
  state.pos = found.end;
  return true;
};

/** Math that begins at a place; null where there is none, also where it does not end. */
function inlineAt(text: string, at: number): { tex: string; end: number } | null {
  if (text.startsWith('\\(', at)) {
    const close = text.indexOf('\\)', at + 2);
    return close > at + 2 ? { tex: text.slice(at + 2, close), end: close + 2 } : null;
  }
  if (text.startsWith('$$', at)) {
    const close = text.indexOf('$$', at + 2);
    return close > at + 2 ? { tex: text.slice(at + 2, close), end: close + 2 } : null;
  }
  if (text[at] !== '$' || /^\s?$/.test(text[at + 1] ?? '')) return null;
  for (let close = text.indexOf('$', at + 1); close !== -1; close = text.indexOf('$', close + 1)) {
    if (text[close - 1] === '\\') continue;
    // Two prices are no formula.
    const isEnd = !/\s/.test(text[close - 1]!) && !/\d/.test(text[close + 1] ?? '');
    return isEnd ? { tex: text.slice(at + 1, close), end: close + 1 } : null;
  }
  return null;
}

const block: BlockRule = (state, startLine, endLine, silent) => {
  const first = lineOf(state, startLine);
  const opener = Object.keys(BLOCKS).find((mark) => first.startsWith(mark));
  if (opener === undefined || state.sCount[startLine]! - state.blkIndent >= 4) return false;
  if (silent) return true;
  const closer = BLOCKS[opener]!;
  const lines: string[] = [];
  let line = startLine;
  let closed = false;
  for (; line < endLine && !closed; line += 1) {
    if (line > startLine && state.sCount[line]! < state.blkIndent && !state.isEmpty(line)) break;
    const text = line === startLine ? first.slice(opener.length) : lineOf(state, line);
    closed = text.trimEnd().endsWith(closer);
    lines.push(closed ? text.trimEnd().slice(0, -closer.length) : text);
  }
  state.line = line;
  const token = state.push('math', '', 0);
  token.map = [startLine, line];
  token.block = true;
  push(token, lines.join('\n').trim(), true, closed);
  return true;
};

function lineOf(state: Parameters<BlockRule>[0], line: number): string {
  return state.src.slice(state.bMarks[line]! + state.tShift[line]!, state.eMarks[line]);
}

function push(token: Token, tex: string, display: boolean, closed: boolean): void {
  token.content = tex;
  token.meta = { kind: 'math', tex, display, closed } satisfies MathText;
}
