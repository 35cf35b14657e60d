// Laws of the partial view: at every prefix it shows the beginning of what the whole holds, or says that it is broken.
import { describe, expect, it } from 'vitest';

import { readPartial, written, type PartialJson } from '../../src/lib/partial_json';

const TEXTS = [
  '{"city": "Köln", "days": [1, -2.5e+10, 0.5], "deep": {"a": {"b": [[], {}]}}, "ok": true, "no": null}',
  '{"text": "a \\"quote\\", a \\\\ and \\u0907 \\ud83d\\ude00 and 👩‍👩‍👧‍👦", "": "", "é\\n": "\\b\\f\\r\\t\\/"}',
  ' [ { "a" : 1 } , [ ] , "x" , false ] ',
  '"only a string"',
  '-0.25E-3',
  '{}',
];

function value(view: PartialJson | null | 'broken'): unknown {
  if (view === null || view === 'broken') return view;
  if (view.kind === 'string') return view.text;
  if (view.kind === 'literal') return JSON.parse(view.text);
  if (view.kind === 'array') return view.items.map(value);
  return Object.fromEntries(view.members.map(({ name, value: member }) => [name, value(member)]));
}

/** Whether `early` may grow into `late`. */
function begins(early: PartialJson | null, late: PartialJson | null): boolean {
  if (early === null) return true;
  if (late === null || early.kind !== late.kind) return false;
  if (!early.open) return JSON.stringify(early) === JSON.stringify(late);
  if (early.kind === 'object' && late.kind === 'object') {
    return early.members.every(({ name, value: member }, index) => {
      const other = late.members[index];
      return other !== undefined && other.name === name && begins(member, other.value);
    });
  }
  if (early.kind === 'array' && late.kind === 'array') {
    return early.items.every((item, index) => begins(item, late.items[index] ?? null));
  }
  return late.kind !== 'object' && late.kind !== 'array' && 'text' in early && late.text.startsWith(early.text);
}

describe.each(TEXTS)('%s', (text) => {
  it('is read whole as JSON reads it', () => {
    expect(value(readPartial(text))).toEqual(JSON.parse(text));
    expect(JSON.parse(written(readPartial(text) as PartialJson))).toEqual(JSON.parse(text));
  });

  it('shows at every prefix the beginning of the whole', () => {
    const whole = readPartial(text) as PartialJson;
    for (let end = 0; end < text.length; end += 1) {
      const early = readPartial(text.slice(0, end));
      expect(early, text.slice(0, end)).not.toBe('broken');
      expect(begins(early as PartialJson | null, whole), text.slice(0, end)).toBe(true);
      expect(written(early as PartialJson | null)).not.toMatch(/\\ud83d"/);
    }
  });
});

it('says so where no JSON goes on like this', () => {
  const broken = ['{"a" 1}', '{a: 1}', '{"a": 1,}', '[1 2]', '{"a": undefined}', '{"a": 01}', '{"a": "\\x"}', '{"a": "\\u12zz"}', '{} x'];
  for (const text of [...broken, '{"a": "line\nbreak"}', 'Sure, here it is', '}', '{"a": NaN}', '{"a": 1.}', '{"a": }', '[,']) {
    expect(readPartial(text), text).toBe('broken');
  }
  expect(readPartial('['.repeat(100_000))).toBe('broken');
});

it('gives no names of its own to what it reads', () => {
  const view = readPartial('{"__proto__": {"polluted": 1}, "constructor": "x"') as PartialJson;
  expect(view).toMatchObject({ kind: 'object', open: true });
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});
