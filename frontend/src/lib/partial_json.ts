// Owns reading JSON that is still being written, for people to look at. Gives nothing that a program may act on.

/** A value as far as it is there. `open`: its end is not. A literal is a number or a word, as it was written. */
export type PartialJson =
  | { kind: 'object'; members: { name: string; value: PartialJson | null }[]; open: boolean }
  | { kind: 'array'; items: PartialJson[]; open: boolean }
  | { kind: 'string'; text: string; open: boolean }
  | { kind: 'literal'; text: string; open: boolean };

/** Deeper than this nobody looks, and the page must not run out of stack. */
const MAX_DEPTH = 60;
const WORDS = ['true', 'false', 'null'];
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const NUMBER_BEGUN = /^-?(?:(?:0|[1-9]\d*)(?:\.\d*)?(?:(?<=\d)[eE][+-]?\d*)?)?$/;
const ESCAPES: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\', '/': '/' };

class Broken extends Error {}

/** The value that a text begins; null while there is none, 'broken' where no JSON goes on like this. */
export function readPartial(text: string): PartialJson | null | 'broken' {
  const reader = new Reader(text);
  try {
    const value = reader.value(0);
    return reader.onlySpaceLeft() ? value : 'broken';
  } catch (error) {
    if (error instanceof Broken) return 'broken';
    throw error;
  }
}

class Reader {
  #at = 0;

  constructor(private readonly text: string) {}

  onlySpaceLeft(): boolean {
    return this.#next() === '';
  }

  /** The value that begins here; null at the end of the text. */
  value(depth: number): PartialJson | null {
    if (depth > MAX_DEPTH) throw new Broken();
    const next = this.#next();
    if (next === '') return null;
    if (next === '{') return this.#object(depth);
    if (next === '[') return this.#array(depth);
    if (next === '"') return { kind: 'string', ...this.#string() };
    return this.#literal();
  }

  #object(depth: number): PartialJson {
    const members: { name: string; value: PartialJson | null }[] = [];
    const open = this.#list('}', () => {
      if (this.#next() !== '"') throw new Broken();
      const name = this.#string();
      if (name.open) return false;
      const member = { name: name.text, value: null as PartialJson | null };
      members.push(member);
      if (this.#next() === '') return false;
      this.#expect(':');
      member.value = this.value(depth + 1);
      return member.value !== null;
    });
    return { kind: 'object', members, open };
  }

  #array(depth: number): PartialJson {
    const items: PartialJson[] = [];
    const open = this.#list(']', () => {
      const item = this.value(depth + 1);
      if (item) items.push(item);
      return item !== null;
    });
    return { kind: 'array', items, open };
  }

  /** Reads entries up to the closing bracket; true if the text ends before it. `entry` returns false at that end. */
  #list(close: string, entry: () => boolean): boolean {
    this.#at += 1;
    if (this.#next() === close) return this.#closed();
    for (;;) {
      if (this.#next() === '' || !entry() || this.#next() === '') return true;
      if (this.#next() === close) return this.#closed();
      this.#expect(',');
    }
  }

  #closed(): false {
    this.#at += 1;
    return false;
  }

  #string(): { text: string; open: boolean } {
    let text = '';
    for (this.#at += 1; this.#at < this.text.length; this.#at += 1) {
      const char = this.text[this.#at]!;
      if (char === '"') return { text, open: this.#closed() };
      if (char < ' ') throw new Broken();
      if (char !== '\\') text += char;
      else {
        const escaped = this.#escape();
        if (escaped === null) break;
        text += escaped;
      }
    }
    this.#at = this.text.length;
    // Half of a pair is not shown: it would be another character for a moment.
    return { text: text.replace(/[\ud800-\udbff]$/, ''), open: true };
  }

  /** What an escape stands for, with the reader on its last character; null where it is cut off. */
  #escape(): string | null {
    const char = this.text[this.#at + 1];
    if (char === undefined) return null;
    if (char !== 'u') {
      const plain = ESCAPES[char];
      if (plain === undefined) throw new Broken();
      this.#at += 1;
      return plain;
    }
    const digits = this.text.slice(this.#at + 2, this.#at + 6);
    if (!/^[\da-f]*$/i.test(digits)) throw new Broken();
    if (digits.length < 4) return null;
    this.#at += 5;
    return String.fromCharCode(parseInt(digits, 16));
  }

  #literal(): PartialJson {
    const start = this.#at;
    while (this.#at < this.text.length && /[\w.+-]/.test(this.text[this.#at]!)) this.#at += 1;
    const text = this.text.slice(start, this.#at);
    const open = this.#at === this.text.length && !WORDS.includes(text);
    const fits = WORDS.includes(text) || NUMBER.test(text);
    const mayFit = open && (WORDS.some((word) => word.startsWith(text)) || NUMBER_BEGUN.test(text));
    if (text === '' || !(fits || mayFit)) throw new Broken();
    return { kind: 'literal', text, open };
  }

  /** The next character that is no white space, '' at the end. */
  #next(): string {
    while (this.#at < this.text.length && ' \t\n\r'.includes(this.text[this.#at]!)) this.#at += 1;
    return this.text[this.#at] ?? '';
  }

  #expect(char: string): void {
    if (this.#next() !== char) throw new Broken();
    this.#at += 1;
  }
}

/** A value as one line or several of text, closed where it was cut. */
export function written(value: PartialJson | null, indent = ''): string {
  if (value === null) return '';
  if (value.kind === 'literal') return value.text;
  if (value.kind === 'string') return JSON.stringify(value.text);
  const deeper = `${indent}  `;
  const lines =
    value.kind === 'array'
      ? value.items.map((item) => written(item, deeper))
      : value.members.map(({ name, value: member }) => `${JSON.stringify(name)}: ${written(member, deeper)}`);
  const [before, after] = value.kind === 'array' ? ['[', ']'] : ['{', '}'];
  if (lines.length === 0) return before + after;
  return `${before}\n${lines.map((line) => deeper + line).join(',\n')}\n${indent}${after}`;
}
