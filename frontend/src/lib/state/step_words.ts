// Owns what the page says about reasoning and tool calls.
import { words } from '../words';
import type { Step } from './steps';

export function thinkingWords(step: Step, thinking: boolean, now_ms: number): string {
  if (thinking) return words.thinkingFor(step.began_ms === null ? null : seconds(now_ms - step.began_ms));
  const took = step.began_ms === null || step.ended_ms === null ? null : seconds(step.ended_ms - step.began_ms);
  return words.thoughtFor(took);
}

function seconds(value_ms: number): number {
  return Math.max(0, Math.round(value_ms / 1000));
}

export type CallState = 'writing' | 'complete' | 'invalid' | 'cut';

export function callState(step: Step, live: boolean): CallState {
  if (step.invalid) return 'invalid';
  if (step.done) return 'complete';
  return live ? 'writing' : 'cut';
}

export const callWords = (state: CallState): string => words.callStates[state];
