// Owns the tree of a conversation's messages and which path through it is shown. Talks to nobody.
import type { Mark, StoredMessage, StoredResponse } from '../api';
import type { Env } from '../stream/env';
import { readOutput } from '../stream/items';
import { readOutputError, readResponse, sequenceOfEventId } from '../stream/protocol';
import { NEW_ANSWER, reduce, type Answer } from './answer';
import { Run } from './run.svelte';
import { placed, stretches, type Step, type Stretch } from './steps';

let nextKey = 1;

/** One message: a person's text, or an answer with its run. */
export class Turn {
  readonly key = nextKey++;
  id: string | null = $state(null);
  children: Turn[] = $state.raw([]);
  chosen = $state(0);
  mark: Mark = $state(null);
  /** Of an answer: it was asked for while this page was open. */
  askedHere = false;

  constructor(
    readonly parent: Turn | null,
    readonly role: 'root' | 'user' | 'assistant',
    readonly text: string,
    readonly run: Run | null,
  ) {}

  add(child: Turn): Turn {
    this.children = [...this.children, child];
    this.chosen = this.children.length - 1;
    return child;
  }

  remove(child: Turn): void {
    this.children = this.children.filter((other) => other !== child);
    this.chosen = Math.max(0, this.children.length - 1);
  }

  /** The messages from here on, along the chosen children. */
  path(): Turn[] {
    const turns: Turn[] = [];
    for (let turn = this.children[this.chosen]; turn; turn = turn.children[turn.chosen]) turns.push(turn);
    return turns;
  }

  /** The turns that this answer was written on from: with it they are one answer. The oldest is first. */
  get earlierParts(): Turn[] {
    const parts: Turn[] = [];
    if (this.role !== 'assistant') return parts;
    for (let turn = this.parent; turn?.role === 'assistant'; turn = turn.parent) parts.unshift(turn);
    return parts;
  }

  /** The message that is answered here. */
  get question(): Turn | null {
    return (this.earlierParts[0] ?? this).parent;
  }

  /** Steps and text of the answer in their order, those of its earlier parts included. */
  get stretches(): Stretch[] {
    let base = 0;
    const steps = [...this.earlierParts, this].flatMap(({ run }) => {
      if (!run) return [];
      const { steps, text, closed, runsTools } = run.answer;
      base += text.length;
      return placed({ steps, live: !closed, run: runsTools }, text.length, base - text.length);
    });
    return stretches(steps, this.wholeText);
  }

  /** The text of the answer, its earlier parts included. */
  get wholeText(): string {
    return [...this.earlierParts, this].map((part) => part.run?.answer.text ?? '').join('');
  }

  all(): Turn[] {
    return [this, ...this.children.flatMap((child) => child.all())];
  }
}

export function newRoot(): Turn {
  return new Turn(null, 'root', '', null);
}

export function treeOf(messages: StoredMessage[], env: Env): Turn {
  const root = newRoot();
  const byId = new Map<string, Turn>();
  for (const message of messages) {
    const parent = (message.parent !== null && byId.get(message.parent)) || root;
    const isUser = message.role === 'user';
    const run = isUser ? null : new Run(env, storedAnswer(message, env.clock.now()));
    const turn = parent.add(new Turn(parent, isUser ? 'user' : 'assistant', isUser ? message.text : '', run));
    turn.id = message.id;
    turn.mark = message.response?.mark ?? null;
    byId.set(message.id, turn);
  }
  return root;
}

export function storedAnswer({ id, text, response }: StoredMessage, now_ms: number): Answer {
  const base: Answer = { ...NEW_ANSWER, messageId: id, text, accepted: true };
  if (!response) return { ...base, closed: true, end: { state: 'completed', reason: '', finishReason: null, error: null } };
  const json = response.json_answer ?? null;
  const judgement = { json: json !== null, judged: json?.judged ?? false, outputError: readOutputError(json?.error) };
  const runsTools = (response.run_tools?.length ?? 0) > 0;
  const known = { ...base, ...judgement, runsTools, sequence: sequenceOfEventId(response.last_event_id), queued: response.state === 'queued' };
  const closed = isEnded(response);
  // Its row counts nothing before the end.
  const stored = readResponse({ ...response, status: '', usage: closed ? response.usage : null });
  return { ...reduce({ ...known, steps: storedSteps(response, text, now_ms) }, { kind: 'told', response: stored }), closed };
}

/** When a step began that is still open, nobody wrote down; that the answer was asked for, the server knows. */
function storedSteps(response: StoredResponse, text: string, now_ms: number): Step[] {
  const asked_ms = response.age_ms == null ? null : now_ms - response.age_ms;
  return readOutput(response.output).map((item) => {
    const at = item.textBefore === null ? null : [...text].slice(0, item.textBefore).join('').length;
    return { ...item, at, began_ms: item.done ? null : asked_ms, ended_ms: null };
  });
}

function isEnded(response: StoredResponse): boolean {
  return response.end_state !== null || response.state === 'ended';
}
