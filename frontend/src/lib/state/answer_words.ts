// Owns what the page says about the state of an answer: status line, end mark, error card, figures.
import type { LinkStatus } from '../stream/connection';
import { duration, number, tokens, words } from '../words';
import type { Answer } from './answer';
import { endedWords, thinkingWords, toolName } from './step_words';
import { openStep, runningCall, type Step } from './steps';

export type Tone = 'idle' | 'busy' | 'warn' | 'bad' | 'good';

export interface StatusLine {
  text: string;
  tone: Tone;
}

/** One line for the status bar. `now_ms` is on the clock of `link.until_ms`. */
export function statusLine(answer: Answer, link: LinkStatus, now_ms: number): StatusLine {
  if (answer.end) return { text: endMark(answer), tone: endTone(answer) };
  if (answer.stop === 'asked') return { text: words.status.stopping, tone: 'busy' };
  const trouble = linkText(link, now_ms) ?? (answer.stop === 'failed' ? words.status.stopFailed : null);
  return trouble === null ? { text: workText(answer, now_ms), tone: 'busy' } : { text: trouble, tone: 'warn' };
}

function linkText(link: LinkStatus, now_ms: number): string | null {
  if (link.kind === 'offline') return words.status.offline;
  if (link.kind !== 'reconnecting' && link.kind !== 'waiting') return null;
  const left_s = Math.max(0, Math.ceil((link.until_ms - now_ms) / 1000));
  if (link.kind === 'reconnecting') return words.status.reconnecting(link.attempt, left_s);
  return words.status.waiting(words.refusals[link.status]!.title, link.why, left_s);
}

function workText(answer: Answer, now_ms: number): string {
  const step = openStep(answer.steps);
  if (step?.kind === 'reasoning') return thinkingWords(step, true, now_ms);
  if (step?.kind === 'call') return words.calling(step.name);
  const call = toolThatRuns(answer);
  if (call) return words.runningTool(toolName(call.name));
  if (answer.text !== '') return answer.continued ? words.status.writingOn : words.status.writing;
  if (answer.queued) return words.status.queued;
  return answer.accepted ? words.thinkingFor(null) : words.status.connecting;
}

/** The call whose tool the server runs now. */
function toolThatRuns({ runsTools, steps }: Answer): Step | null {
  return runsTools ? runningCall(steps) : null;
}

/** Whether the model is waited for: no reasoning or call is written, no tool runs. */
export function isAtNothing(answer: Answer): boolean {
  return openStep(answer.steps) === null && toolThatRuns(answer) === null;
}

/** Whether the status line holds seconds that pass. */
export function isCounting(answer: Answer, link: LinkStatus): boolean {
  if (answer.end) return false;
  return link.kind === 'waiting' || link.kind === 'reconnecting' || openStep(answer.steps)?.kind === 'reasoning';
}

/** What a screen reader is told: what the answer is at, never its text, nothing that changes every second. */
export function announcement(answer: Answer, link: LinkStatus): string {
  const { heard } = words;
  if (answer.closed) return answer.end?.state === 'completed' ? heard.ready : endMark(answer);
  if (link.kind === 'offline') return heard.offline;
  if (link.kind === 'reconnecting') return heard.lost;
  if (link.kind === 'waiting') return heard.waiting;
  const step = openStep(answer.steps);
  if (step?.kind === 'call') return words.calling(step.name);
  if (step?.kind === 'reasoning') return heard.thinking;
  const call = toolThatRuns(answer);
  return call ? words.runningTool(toolName(call.name)) : (endedWords(answer.steps) ?? heard.answering);
}

/** Reasons of a completed answer by which it is not all of what the model would have said. */
const CUT_SHORT = ['length', 'content_filter'] as const;
const STATES = ['abandoned', 'errored', 'timed_out', 'truncated', 'rejected'] as const;

/** How an answer ended, in a few words. */
export function endMark(answer: Answer): string {
  const { end } = answer;
  if (!end) return '';
  if (end.state === 'cancelled') return cancelledMark(answer, end.reason);
  if (end.state === 'completed') return words.ends[CUT_SHORT.find((reason) => reason === end.reason) ?? 'done'];
  return words.ends[STATES.find((state) => state === end.state) ?? 'other'];
}

function cancelledMark(answer: Answer, reason: string): string {
  if (reason === 'superseded' || reason === 'deleted') return words.ends[reason];
  const count = stoppedTokens(answer);
  const written = count === null ? null : tokens(count);
  return reason === 'admin' ? words.ends.stoppedByAdmin(written) : words.ends.stopped(written);
}

function stoppedTokens({ proof, usage }: Answer): number | null {
  return proof?.generated_tokens ?? usage?.generated_tokens ?? usage?.completion_tokens ?? null;
}

function endTone(answer: Answer): Tone {
  if (answer.end?.state === 'completed') return isPartial(answer) ? 'warn' : 'good';
  return answer.end?.state === 'cancelled' ? 'idle' : 'bad';
}

/** True when the text is not all of what the model would have said. */
export function isPartial({ end }: Answer): boolean {
  return end !== null && (end.state !== 'completed' || CUT_SHORT.some((reason) => reason === end.reason));
}

/** True when a model can be asked for the rest: there is text, and nothing but its end is missing. */
export function canGoOn(answer: Answer): boolean {
  return answer.closed && !answer.json && answer.text !== '' && isPartial(answer) && answer.end?.reason !== 'content_filter';
}

export interface Card {
  title: string;
  detail: string;
}

/** The words of the error card; null for an end that is no failure. */
export function errorCard(answer: Answer): Card | null {
  const { end, refusal } = answer;
  if (!end || end.state === 'completed' || end.state === 'cancelled') return null;
  if (refusal) return refusalCard(refusal.status, refusal.code, refusal.message);
  const { failures } = words;
  const card = failures[`${end.state}:${end.reason}`] ?? failures[end.state] ?? failures.errored!;
  return { title: card.title, detail: answer.text === '' ? card.detail : `${card.detail} ${words.kept}` };
}

function refusalCard(status: number, code: string, message: string): Card {
  const card = words.refusals[code.startsWith('context_length') ? 413 : status] ?? words.failures.rejected!;
  return { title: card.title, detail: message || card.detail };
}

/** Over a shorter time a rate would say more of the clock than of the model. */
const SHORTEST_RATED_MS = 200;

/** Figures of an answer: tokens, time to the first one, rate. */
export function figures(answer: Answer): string[] {
  const parts: string[] = [];
  const count = answer.usage?.completion_tokens ?? answer.usage?.generated_tokens ?? null;
  if (count !== null) parts.push(tokens(count));
  if (answer.ttft_ms !== null) parts.push(words.firstToken(duration(answer.ttft_ms)));
  const writing_ms = (answer.duration_ms ?? 0) - (answer.ttft_ms ?? 0);
  if (count && writing_ms >= SHORTEST_RATED_MS) parts.push(words.rate(number(count / (writing_ms / 1000), 1)));
  return parts;
}
