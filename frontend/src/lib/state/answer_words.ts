// Owns what the page says about the state of an answer: status line, end mark, error card, figures.
import type { LinkStatus } from '../stream/connection';
import { duration, tokens } from '../words';
import type { Answer } from './answer';

export type Tone = 'idle' | 'busy' | 'warn' | 'bad' | 'good';

export interface StatusLine {
  text: string;
  tone: Tone;
}

/** One line for the status bar. `now_ms` is on the clock of `link.until_ms`. */
export function statusLine(answer: Answer, link: LinkStatus, now_ms: number): StatusLine {
  if (answer.end) return { text: endMark(answer), tone: endTone(answer) };
  if (answer.stop === 'asked') return { text: 'Stopping…', tone: 'busy' };
  switch (link.kind) {
    case 'offline':
      return { text: 'You are offline. The answer goes on when the network is back.', tone: 'warn' };
    case 'reconnecting':
      return { text: `Reconnecting (${link.attempt})…`, tone: 'warn' };
    case 'waiting':
      return { text: waitingText(link.status, link.until_ms - now_ms), tone: 'warn' };
  }
  if (answer.stop === 'failed') return { text: 'The server did not stop it. Press Stop to try again.', tone: 'warn' };
  if (answer.text !== '') return { text: answer.continued ? 'Writing on after an interruption…' : 'Writing…', tone: 'busy' };
  return { text: answer.accepted ? 'Thinking…' : 'Connecting…', tone: 'busy' };
}

function waitingText(status: number, left_ms: number): string {
  const left_s = Math.max(0, Math.ceil(left_ms / 1000));
  const why = status === 429 ? 'Too many requests' : 'The server is busy';
  return `${why}. Trying again in ${left_s} s`;
}

/** How an answer ended, in a few words. */
export function endMark(answer: Answer): string {
  const { end } = answer;
  if (!end) return '';
  if (end.state === 'completed') return COMPLETED[end.reason] ?? 'Done';
  if (end.state === 'cancelled') return cancelledMark(answer, end.reason);
  return MARKS[end.state] ?? 'Ended';
}

const COMPLETED: Record<string, string> = {
  length: 'Cut off at the length limit',
  content_filter: 'Ended by the content filter',
};
const MARKS: Record<string, string> = {
  abandoned: 'Cut off: nobody was reading',
  errored: 'Failed',
  timed_out: 'Timed out',
  truncated: 'Cut off',
  rejected: 'Not sent',
};

function cancelledMark(answer: Answer, reason: string): string {
  if (reason === 'superseded') return 'Superseded by a newer message';
  if (reason === 'deleted') return 'Stopped: the conversation was deleted';
  const count = stoppedTokens(answer);
  const after = count === null ? '' : ` after ${tokens(count)}`;
  return reason === 'admin' ? `Stopped by an administrator${after}` : `Stopped${after}`;
}

function stoppedTokens({ proof, usage }: Answer): number | null {
  return proof?.generated_tokens ?? usage?.generated_tokens ?? usage?.completion_tokens ?? null;
}

function endTone({ end }: Answer): Tone {
  if (end?.state === 'completed') return end.reason in COMPLETED ? 'warn' : 'good';
  return end?.state === 'cancelled' ? 'idle' : 'bad';
}

/** True when the text is not all of what the model would have said. */
export function isPartial({ end }: Answer): boolean {
  return end !== null && (end.state !== 'completed' || end.reason in COMPLETED);
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
  const card = REASONS[`${end.state}:${end.reason}`] ?? STATES[end.state] ?? STATES.errored!;
  const kept = answer.text === '' ? '' : ' What was written so far is kept.';
  return { title: card.title, detail: card.detail + kept };
}

const STATES: Record<string, Card> = {
  errored: { title: 'The answer failed', detail: 'Something went wrong while the model was writing.' },
  timed_out: { title: 'The answer took too long', detail: 'The model did not answer in time.' },
  truncated: { title: 'The answer was cut off', detail: 'The connection to the model was lost.' },
  abandoned: { title: 'The answer was stopped', detail: 'Nobody was reading any more, so the model was freed.' },
  rejected: { title: 'The message was not accepted', detail: 'The server refused the message.' },
};
const REASONS: Record<string, Card> = {
  'errored:upstream_error': { title: 'The model reported an error', detail: 'Trying again may help.' },
  'errored:upstream_protocol': { title: 'The model sent something unreadable', detail: 'Trying again may help.' },
  'errored:engine_aborted': { title: 'The model stopped by itself', detail: 'It was restarted or ran out of room.' },
  'errored:storage': { title: 'The answer could not be saved', detail: 'The server had trouble with its storage.' },
  'timed_out:queue': { title: 'The queue was too long', detail: 'No model became free in time.' },
  'timed_out:ttft': { title: 'The model did not start', detail: 'Not one word came in time.' },
  'timed_out:idle': { title: 'The model fell silent', detail: 'It stopped sending in the middle of the answer.' },
  'timed_out:total': { title: 'The answer reached its time limit', detail: 'It was taking longer than is allowed.' },
  'truncated:relay_lost': { title: 'The answer was cut off', detail: 'The server that was writing it went away.' },
};

const REFUSALS: Record<number, Card> = {
  0: { title: 'The server could not be reached', detail: 'Check your connection and try again.' },
  403: { title: 'Not allowed', detail: 'Your session may have changed. Reload the page and try again.' },
  404: { title: 'Not found', detail: 'The conversation or the answer does not exist any more.' },
  413: { title: 'The message is too long', detail: 'Please shorten it.' },
  429: { title: 'Too many requests', detail: 'You have reached a limit. Please wait.' },
  503: { title: 'The server is busy', detail: 'Please try again in a while.' },
};

function refusalCard(status: number, code: string, message: string): Card {
  const card = code.startsWith('context_length') ? REFUSALS[413] : REFUSALS[status];
  if (!card) return { title: STATES.rejected!.title, detail: message || STATES.rejected!.detail };
  return { title: card.title, detail: message || card.detail };
}

/** Over a shorter time a rate would say more of the clock than of the model. */
const SHORTEST_RATED_MS = 200;

/** Figures of an answer: tokens, time to the first one, rate. */
export function figures(answer: Answer): string[] {
  const parts: string[] = [];
  const count = answer.usage?.completion_tokens ?? answer.usage?.generated_tokens ?? null;
  if (count !== null) parts.push(tokens(count));
  if (answer.ttft_ms !== null) parts.push(`first token ${duration(answer.ttft_ms)}`);
  const writing_ms = (answer.duration_ms ?? 0) - (answer.ttft_ms ?? 0);
  if (count && writing_ms >= SHORTEST_RATED_MS) parts.push(`${(count / (writing_ms / 1000)).toFixed(1)} tokens/s`);
  return parts;
}
