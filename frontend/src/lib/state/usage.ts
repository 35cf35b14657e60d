// Owns adding up a person's use by day or by model. Pure.
import type { UsedRow } from '../api';

export interface Sum {
  name: string;
  answers: number;
  prompt_tokens: number;
  completion_tokens: number;
  tokens: number;
}

/** Latest first, as the rows come. */
export const byDay = (rows: readonly UsedRow[]): Sum[] => sums(rows, (row) => row.day);

/** The most used first. */
export const byModel = (rows: readonly UsedRow[]): Sum[] => sums(rows, (row) => row.model).sort((one, other) => other.tokens - one.tokens);

function sums(rows: readonly UsedRow[], nameOf: (row: UsedRow) => string): Sum[] {
  const byName = new Map<string, Sum>();
  for (const row of rows) {
    const name = nameOf(row);
    const sum = byName.get(name) ?? { name, answers: 0, prompt_tokens: 0, completion_tokens: 0, tokens: 0 };
    sum.answers += row.answers;
    sum.prompt_tokens += row.prompt_tokens;
    sum.completion_tokens += row.completion_tokens;
    sum.tokens = sum.prompt_tokens + sum.completion_tokens;
    byName.set(name, sum);
  }
  return [...byName.values()];
}
