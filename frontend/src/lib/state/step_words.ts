// Owns what the page says about reasoning and tool calls.
import { words } from '../words';
import { resultOf, runningCall, type Step, type Steps } from './steps';

export function thinkingWords(step: Step, thinking: boolean, now_ms: number): string {
  if (thinking) return words.thinkingFor(step.began_ms === null ? null : seconds(now_ms - step.began_ms));
  const took = step.began_ms === null || step.ended_ms === null ? null : seconds(step.ended_ms - step.began_ms);
  return words.thoughtFor(took);
}

function seconds(value_ms: number): number {
  return Math.max(0, Math.round(value_ms / 1000));
}

export type CallState = keyof typeof words.callStates;

export function callState(call: Step, { steps, live, run }: Steps): CallState {
  const result = resultOf(steps, call);
  if (result) return result.error === null ? 'result' : 'failed';
  if (call.error !== null) return 'invalid';
  if (!call.done) return live ? 'writing' : 'cut';
  if (!run) return 'complete';
  if (!live) return 'unanswered';
  return runningCall(steps) === call ? 'running' : 'waiting';
}

export function callWords(state: CallState, result: Step | null): string {
  return state === 'failed' ? failureWords(result) : words.callStates[state];
}

function failureWords(result: Step | null): string {
  return known(words.toolFailures, result?.error ?? '') ?? words.callStates.failed;
}

/** A tool by the name that people know it by. */
export function toolName(name: string): string {
  return known(words.toolNames, name) ?? name;
}

/** Names and codes come from elsewhere: none may find what every object has. */
function known(dictionary: Record<string, string>, key: string): string | undefined {
  return Object.hasOwn(dictionary, key) ? dictionary[key] : undefined;
}

/** What is said when a tool has ended: null while the newest step is something else. */
export function endedWords(steps: readonly Step[]): string | null {
  const newest = steps.findLast((step) => step.kind !== 'message');
  if (newest?.kind !== 'result') return null;
  const call = steps.find((step) => step.kind === 'call' && step.callId === newest.callId);
  if (!call) return null;
  return `${toolName(call.name)}: ${newest.error === null ? words.callStates.result : failureWords(newest)}`;
}
