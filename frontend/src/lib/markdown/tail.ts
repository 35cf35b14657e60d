// Owns what of an unfinished end is shown: half a link as its label, open emphasis as closed. Pure; decides no blocks.
import type { Token } from 'markdown-it';

import { asTask, parser, type ParseEnv } from './parser';

/** Marks that may yet become a list, a heading, a line, a table's line or a fence. */
const BEGUN_LINE = /(?:^|\n)[ \t>]*(?:[-=_*+#|:`~>$\\][-=_*+#|:`~>$ \t]*|\d{1,9}[.)]?[ \t]*)(?:\[[ xX]?\]?[ \t]*)?$/;
const SEPARATOR_BEGUN = /^[\s|:-]*$/;
const LONGEST_HEADER_CHARS = 1000;
/** In a longer paragraph nothing is completed: it is read again in every frame. */
const LONGEST_INLINE_CHARS = 4000;
const LONGEST_FORMULA_CHARS = 200;

/** The text without an end of which it is not yet to be seen what block it will be. */
export function withoutBegunBlock(text: string): string {
  const begun = BEGUN_LINE.exec(text);
  return withoutTableHeader(begun ? text.slice(0, begun.index) : text);
}

/** Lines with bars are a table's once the line below its header is whole, and no paragraph before. */
function withoutTableHeader(text: string): string {
  const end = text.endsWith('\n') ? text.length - 1 : text.length;
  const last = text.lastIndexOf('\n', end - 1) + 1;
  const line = text.slice(last, end);
  if (!isBarred(line) || line.length > LONGEST_HEADER_CHARS) return text;
  const before = last === 0 ? '' : text.slice(text.lastIndexOf('\n', last - 2) + 1, last - 1);
  if (!isBarred(before)) return text.slice(0, last);
  const above = text.slice(0, last - 1 - before.length);
  const isHeader = !isBarred(above.slice(above.lastIndexOf('\n', above.length - 2) + 1).trimEnd());
  return isHeader && end === text.length && SEPARATOR_BEGUN.test(line) ? above : text;
}

const isBarred = (line: string): boolean => line.trimStart().startsWith('|');

/** Completes the last inline text of a parse, if the text ends in it. */
export function completeLast(tokens: Token[], env: ParseEnv): void {
  const last = tokens.findLastIndex((token) => (token.type === 'inline' && token.content !== '') || isCode(token));
  const token = tokens[last];
  if (!token || isCode(token) || token.content.length > LONGEST_INLINE_CHARS) return;
  const content = completed(token.content);
  if (content === token.content) return;
  token.children = parser.parseInline(content, env)[0]?.children ?? [];
  asTask(token, last, tokens);
}

const isCode = (token: Token): boolean => ['fence', 'code_block', 'math'].includes(token.type);

interface Open {
  mark: string;
  length: number;
  at: number;
}

/** Inline Markdown with its open ends closed, and without what has only begun. */
export function completed(content: string): string {
  const text = content.replace(/(?:[*_~`]+|(?:^|(?<=\s))(?:!|\$+)|!?\[!?\[?|\\)$/, '');
  const opened: Open[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!;
    if (isMathBegun(text, at)) {
      const end = mathEnd(text, at);
      if (end === null) return closed(withoutBrackets(text.slice(0, at), opened), marksOf(opened));
      at = end;
    } else if (char === '\\') at += 1;
    else if (char === '`') {
      const length = runLength(text, at);
      const close = closingRun(text, at + length, length);
      if (close === -1) return closed(text, opened, char.repeat(length));
      at = close + length - 1;
    } else if (char === '[') opened.push({ mark: char, length: 1, at });
    else if (char === ']') {
      const end = linkEnd(text, at, opened);
      if (end === null) return closed(withoutBrackets(...asLabel(text, at, opened)), marksOf(opened));
      at = end;
    } else if ('*_~'.includes(char)) {
      const length = runLength(text, at);
      takeRun(text, { mark: char, length, at }, opened);
      at += length - 1;
    }
  }
  return closed(withoutBrackets(text, opened), marksOf(opened));
}

/** Where a formula could begin: a price is none. */
function isMathBegun(text: string, at: number): boolean {
  return text.startsWith('\\(', at) || (text[at] === '$' && /[^\s\d$]/.test(text[at + 1] ?? ' ') && text[at - 1] !== '$');
}

/** The last character of a formula, or its first where it is too long to be waited for; null while it is not whole. */
function mathEnd(text: string, at: number): number | null {
  const close = text[at] === '$' ? '$' : '\\)';
  const end = text.indexOf(close, at + 2);
  if (end !== -1) return end + close.length - 1;
  return text.length - at > LONGEST_FORMULA_CHARS ? at : null;
}

/** Where a bracket's link ends; the bracket itself where it is none, null where the link is not complete. */
function linkEnd(text: string, at: number, opened: Open[]): number | null {
  const start = opened.findLastIndex(({ mark }) => mark === '[');
  if (start === -1) return at;
  const next = text[at + 1];
  if (next === undefined && isLinkLike(text, opened[start]!.at)) return null;
  if (next === '(' || next === '[') {
    const end = next === '(' ? targetEnd(text, at + 2) : text.indexOf(']', at + 2);
    if (end === -1) return text.includes('\n', at) ? at : null;
    opened.splice(start);
    return end;
  }
  opened.splice(start, 1);
  return at;
}

/** The bracket that closes a link's target, which may have brackets itself; -1 where it is not there. */
function targetEnd(text: string, from: number): number {
  let depth = 1;
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '(') depth += 1;
    if (text[at] === ')') depth -= 1;
    if (depth === 0) return at;
  }
  return -1;
}

/** The text up to the label of its last link, whose target is not there yet; and what stays open beside it. */
function asLabel(text: string, at: number, opened: Open[]): [string, Open[]] {
  const start = opened.findLastIndex(({ mark }) => mark === '[');
  return [withoutBrackets(text.slice(0, at), opened.slice(start)), opened.slice(0, start)];
}

/** Without the brackets of labels that are still being written; of half an image nothing is left. */
function withoutBrackets(text: string, opened: Open[]): string {
  for (const { mark, at } of opened.toReversed()) {
    if (mark !== '[' || !isLinkLike(text, at)) continue;
    text = text[at - 1] === '!' ? text.slice(0, at - 1) : text.slice(0, at) + text.slice(at + 1);
  }
  return text;
}

const marksOf = (opened: Open[]): Open[] => opened.filter(({ mark }) => mark !== '[');

const isLinkLike = (text: string, at: number): boolean => at === 0 || /[\s!(>*_~"'[]/.test(text[at - 1]!);

function takeRun(text: string, run: Open, opened: Open[]): void {
  const before = text[run.at - 1] ?? ' ';
  const after = text[run.at + run.length] ?? ' ';
  if (run.mark === '~' && run.length !== 2) return;
  const same = opened.findLastIndex(({ mark }) => mark === run.mark);
  if (same !== -1 && !/\s/.test(before) && !(run.mark === '_' && /\w/.test(after))) {
    const open = opened[same]!;
    open.length -= run.length;
    opened.splice(open.length > 0 ? same + 1 : same);
  } else if (!/\s/.test(after) && !/\w/.test(before)) {
    opened.push(run);
  }
}

function closed(text: string, opened: Open[], code = ''): string {
  if (opened.length === 0) return text + code;
  const marks = opened.map(({ mark, length }) => mark.repeat(length)).reverse();
  return (text + code).trimEnd() + marks.join('');
}

function runLength(text: string, at: number): number {
  let end = at;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

function closingRun(text: string, from: number, length: number): number {
  for (let at = text.indexOf('`', from); at !== -1; at = text.indexOf('`', at)) {
    const found = runLength(text, at);
    if (found === length) return at;
    at += found;
  }
  return -1;
}
