// Owns what an answer does beside its text: steps that begin, grow and end. Pure functions; times are given.
import type { OutputItem } from '../stream/items';

export interface Step extends OutputItem {
  /** When this page saw it begin and end; null for what was over before. */
  began_ms: number | null;
  ended_ms: number | null;
}

/** An item as the server has it: a new step, or all of one that is there. */
export function withItem(steps: readonly Step[], item: OutputItem, at_ms: number | null): readonly Step[] {
  const known = steps.find((step) => step.index === item.index);
  const began_ms = known ? known.began_ms : at_ms;
  const step = { ...item, began_ms, ended_ms: item.done ? at_ms : null };
  if (known) return steps.map((other) => (other === known ? step : other));
  return [...steps, step].sort((one, other) => one.index - other.index);
}

export function withDelta(steps: readonly Step[], index: number, text: string): readonly Step[] {
  return steps.map((step) => (step.index === index ? { ...step, text: step.text + text } : step));
}

/** The steps that are shown before the answer's text and after it. */
export function aroundText(steps: readonly Step[]): { before: Step[]; after: Step[] } {
  const place = steps.find((step) => step.kind === 'message')?.index ?? Infinity;
  const shown = steps.filter((step) => step.kind !== 'message');
  return { before: shown.filter((step) => step.index < place), after: shown.filter((step) => step.index > place) };
}

/** What the answer is at, if it is not its text: the newest step, while it is not done. */
export function openStep(steps: readonly Step[]): Step | null {
  const newest = steps.findLast((step) => step.kind !== 'message' && !step.done);
  return newest ?? null;
}
