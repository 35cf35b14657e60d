// Owns what an answer does beside its text: steps that begin, grow and end. Pure functions; times are given.
import type { OutputItem } from '../stream/items';

export interface Step extends OutputItem {
  /** When this page saw it begin and end; null for what was over before. */
  began_ms: number | null;
  ended_ms: number | null;
  /** How much of the answer's text (UTF-16 units) was there when it began; null for what nobody knows. */
  at: number | null;
}

/** An item as the server has it: a new step, or all of one that is there. */
export function withItem(steps: readonly Step[], item: OutputItem, at_ms: number | null, at: number): readonly Step[] {
  const known = steps.find((step) => step.index === item.index);
  const { began_ms, at: began } = known ?? { began_ms: at_ms, at };
  const step = { ...item, began_ms, at: began, ended_ms: item.done ? at_ms : null };
  if (known) return steps.map((other) => (other === known ? step : other));
  return [...steps, step].sort((one, other) => one.index - other.index);
}

export function withDelta(steps: readonly Step[], index: number, text: string): readonly Step[] {
  return steps.map((step) => (step.index === index ? { ...step, text: step.text + text } : step));
}

/** What is known of an answer's steps together: whether more may come, whether its calls are run by the server. */
export interface Steps {
  steps: readonly Step[];
  live: boolean;
  run: boolean;
}

/** A step in its place: after so much of the text that is shown. */
export interface Placed {
  step: Step;
  at: number;
  among: Steps;
}

/**
 * The steps of an answer of `length` characters that goes on after `base` others. A result is shown with its call. What
 * came before its text is shown before all of it: it must not part what was written on from what is written on.
 */
export function placed(among: Steps, length: number, base: number): Placed[] {
  const message = among.steps.find((step) => step.kind === 'message')?.index ?? Infinity;
  const shown = among.steps.filter((step) => step.kind !== 'message' && step.kind !== 'result');
  return shown.map((step) => {
    const at = Math.min(length, step.at ?? (step.index < message ? 0 : length));
    return { step, at: at === 0 ? 0 : base + at, among };
  });
}

/** Steps and the text after them, up to the next ones. */
export interface Stretch {
  steps: Placed[];
  text: string;
}

export function stretches(steps: readonly Placed[], text: string): Stretch[] {
  const starts = [...new Set([0, ...steps.map(({ at }) => at)])].sort((one, other) => one - other);
  return starts.map((start, index) => ({
    steps: steps.filter(({ at }) => at === start),
    text: text.slice(start, starts[index + 1]),
  }));
}

/** What the answer is at, if it is not its text: the newest step, while it is not done. */
export function openStep(steps: readonly Step[]): Step | null {
  const newest = steps.findLast((step) => step.kind !== 'message' && !step.done);
  return newest ?? null;
}

/** What a call gave: joined by its id alone, so in whatever order they came. Of two results the first counts. */
export function resultOf(steps: readonly Step[], call: Step): Step | null {
  if (call.callId === '') return null;
  return steps.find((step) => step.kind === 'result' && step.callId === call.callId) ?? null;
}

/** The call whose tool runs: one after the other, in their order, once all calls are written. */
export function runningCall(steps: readonly Step[]): Step | null {
  if (openStep(steps) !== null) return null;
  return steps.find((step) => step.kind === 'call' && resultOf(steps, step) === null) ?? null;
}
