// Laws of the reducer: a replay changes nothing, the first end stays, figures come from the server.
import { expect, it } from 'vitest';

import { NEW_ANSWER, reduce, type Answer, type AnswerEvent } from '../../src/lib/state/answer';
import { endMark, errorCard, figures, isPartial, statusLine } from '../../src/lib/state/answer_words';
import { callState, thinkingWords } from '../../src/lib/state/step_words';
import { placed, stretches } from '../../src/lib/state/steps';
import { readFrame, readResponse, type WireEvent } from '../../src/lib/stream/protocol';

const delta = (sequence: number, text: string): AnswerEvent => ({ kind: 'wire', event: { type: 'delta', sequence, text } });
const wire = (sequence: number, body: object, at_ms = 1000): AnswerEvent => {
  const frame = readFrame(JSON.stringify({ ...body, sequence_number: sequence }));
  return { kind: 'wire', event: (frame as { event: WireEvent }).event, at_ms };
};
const item = (sequence: number, what: string, output_index: number, body: object, at_ms = 1000): AnswerEvent =>
  wire(sequence, { type: `response.output_item.${what}`, output_index, item: body }, at_ms);
const run = (...events: AnswerEvent[]): Answer => events.reduce(reduce, NEW_ANSWER);
const ended = (sequence: number, fields: object): AnswerEvent => ({
  kind: 'wire',
  event: { type: 'ended', sequence, response: readResponse({ id: 'resp_1', ...fields }) },
});
const cancelled = {
  status: 'cancelled',
  end_state: 'cancelled',
  end_reason: 'user',
  stop: { stop_ms: 80, generated_tokens: 41, sent_tokens: 39, tokens_after_stop: 2, abort_proven: true },
};
const LIVE = { kind: 'live' } as const;

it('takes every event once, however often it is replayed', () => {
  const events = [delta(32, 'a'), delta(48, 'b'), delta(64, 'c')];
  const once = run(...events);
  expect(once.text).toBe('abc');
  for (const again of events) expect(reduce(once, again)).toBe(once);
  expect(run(events[0]!, events[0]!, events[1]!, events[0]!, events[1]!, events[2]!)).toEqual(once);
});

it('ends once, also by an end that is told again to a page that knew its number', () => {
  const known: Answer = { ...NEW_ANSWER, text: 'abc', sequence: 64 };
  const over = reduce(known, ended(64, { status: 'completed', end_state: 'completed', end_reason: 'stop' }));
  expect([over.text, over.sequence, over.closed, over.end?.state]).toEqual(['abc', 64, true, 'completed']);
  expect(reduce(over, ended(64, cancelled))).toBe(over);
});

it('keeps reasoning and calls apart from the text, in the order in which they began', () => {
  const events = [
    item(17, 'added', 0, { type: 'reasoning', content: [] }),
    wire(32, { type: 'response.reasoning_text.delta', output_index: 0, delta: 'Hm' }, 2000),
    wire(48, { type: 'response.reasoning_text.delta', output_index: 0, delta: 'm' }),
    item(49, 'done', 0, { type: 'reasoning', status: 'completed', content: [{ type: 'reasoning_text', text: 'Hmm' }] }, 4000),
    item(50, 'added', 1, { type: 'message', content: [] }),
    delta(64, 'Let me see.'),
    item(65, 'added', 2, { type: 'function_call', name: 'weather', arguments: '' }),
    wire(80, { type: 'response.function_call_arguments.delta', output_index: 2, delta: '{"a": ' }),
  ];
  const answer = run(...events, ...events);
  expect(answer.text).toBe('Let me see.');
  expect(answer.steps.map(({ kind, text, done }) => [kind, text, done])).toEqual([
    ['reasoning', 'Hmm', true],
    ['message', '', false],
    ['call', '{"a": ', false],
  ]);
  const parts = stretches(placed({ steps: answer.steps, live: true, run: false }, answer.text.length, 0), answer.text);
  expect(parts.map(({ steps, text }) => [steps.map(({ step }) => step.kind), text])).toEqual([
    [['reasoning'], 'Let me see.'],
    [['call'], ''],
  ]);
  expect(thinkingWords(answer.steps[0]!, false, 0)).toBe('Thought for 3 s');
  expect(statusLine(answer, LIVE, 0).text).toBe('Calling weather…');
  const state = ({ steps }: Answer, live: boolean) => callState(steps[2]!, { steps, live, run: false });
  expect([state(answer, true), state(answer, false)]).toEqual(['writing', 'cut']);
  const bad = run(...events, item(96, 'done', 2, { type: 'function_call', name: 'weather', arguments: '{"a": }', status: 'completed', error: 'invalid_arguments' }));
  expect(state(bad, true)).toBe('invalid');
  expect(reduce(bad, { kind: 'reset' }).steps).toEqual([]);
});

it('takes no item that it does not know', () => {
  const odd = [item(16, 'added', 0, { type: 'execute', code: 'x' }), item(32, 'added', -1, { type: 'reasoning' }), wire(48, { type: 'response.output_item.added' })];
  expect(run(...odd)).toMatchObject({ steps: [], sequence: 48 });
});

it('starts over after a reset', () => {
  expect(run(delta(32, 'old'), { kind: 'reset' }, delta(32, 'new')).text).toBe('new');
});

it('keeps the first end: an answer to stop and a terminal event may come in either order', () => {
  const stop: AnswerEvent = { kind: 'told', response: readResponse(cancelled) };
  for (const events of [[stop, ended(80, cancelled)], [ended(80, cancelled), stop]]) {
    const answer = run(delta(32, 'a'), { kind: 'stop_asked' }, ...events);
    expect(answer.end).toMatchObject({ state: 'cancelled', reason: 'user' });
    expect(endMark(answer)).toBe('Stopped after 41 tokens');
    expect(answer.closed).toBe(true);
  }
  const late = run(ended(80, { status: 'completed', end_state: 'completed', end_reason: 'stop' }), stop);
  expect(late.end?.state).toBe('completed');
});

it('takes the last text of a stopped answer that comes after the answer to stop', () => {
  const stop: AnswerEvent = { kind: 'told', response: readResponse(cancelled) };
  expect(run(delta(32, 'a'), stop, delta(48, 'b'), ended(64, cancelled)).text).toBe('ab');
});

it('says Stopping at once and the server’s figure afterwards', () => {
  const asked = run(delta(32, 'a'), { kind: 'stop_asked' });
  expect(statusLine(asked, LIVE, 0).text).toBe('Stopping…');
  expect(statusLine(reduce(asked, ended(48, cancelled)), LIVE, 0).text).toBe('Stopped after 41 tokens');
});

it('says where the answer is', () => {
  const status = (answer: Answer, link: Parameters<typeof statusLine>[1]) => statusLine(answer, link, 1000).text;
  expect(status(NEW_ANSWER, { kind: 'connecting' })).toBe('Connecting…');
  expect(status(run({ kind: 'response_id', id: 'r' }), LIVE)).toBe('Thinking…');
  expect(status(run(delta(32, 'a')), LIVE)).toBe('Writing…');
  const trying = (until_ms: number) => status(run(delta(32, 'a')), { kind: 'reconnecting', attempt: 3, until_ms });
  expect([trying(1000), trying(3500)]).toEqual(['Reconnecting (3)…', 'Reconnecting (3) in 3 s…']);
  expect(status(run({ kind: 'response_id', id: 'r' }, { kind: 'queued', queued: true }), LIVE)).toBe('Waiting in the queue…');
  const waiting = (code: number, why: string) => status(NEW_ANSWER, { kind: 'waiting', status: code, why, until_ms: 5200 });
  expect(waiting(503, 'every engine is drained')).toBe('The server is busy: every engine is drained. Trying again in 5 s');
  expect(waiting(429, '')).toBe('Too many requests. Trying again in 5 s');
  expect(status(run(delta(32, 'a')), { kind: 'offline' })).toContain('offline');
});

it('has words for every end state and reason', () => {
  const reasons: Record<string, string[]> = {
    abandoned: ['disconnected'],
    errored: ['upstream_error', 'upstream_protocol', 'engine_aborted', 'storage', 'internal'],
    timed_out: ['queue', 'ttft', 'idle', 'total'],
    truncated: ['upstream_lost', 'relay_lost'],
    rejected: ['over_quota', 'something_new'],
  };
  for (const [end_state, names] of Object.entries(reasons)) {
    for (const end_reason of names) {
      const answer = run(delta(32, 'a'), ended(48, { status: 'failed', end_state, end_reason }));
      expect(errorCard(answer)?.title, `${end_state} ${end_reason}`).toBeTruthy();
      expect(isPartial(answer)).toBe(true);
    }
  }
  for (const end_reason of ['user', 'api', 'admin', 'superseded', 'deleted']) {
    const answer = run(ended(48, { status: 'cancelled', end_state: 'cancelled', end_reason }));
    expect(errorCard(answer)).toBeNull();
    expect(endMark(answer)).not.toBe('');
  }
  const atLimit = run(ended(48, { status: 'incomplete', end_state: 'completed', end_reason: 'length' }));
  expect([errorCard(atLimit), isPartial(atLimit)]).toEqual([null, true]);
});

it('shows the words of a refusal', () => {
  const refused = run({ kind: 'refused', refusal: { status: 413, code: 'too_large', message: 'The limit is 4096.', retryAfter_s: null, end: null } });
  expect(errorCard(refused)).toEqual({ title: 'The message is too long', detail: 'The limit is 4096.' });
  expect(refused.closed).toBe(true);
});

it('prefers the server’s figures to its own', () => {
  const usage = { input_tokens: 5, output_tokens: 40 };
  const timed: AnswerEvent = { kind: 'timed', ttft_ms: 900, duration_ms: null };
  const answer = run(timed, ended(48, { status: 'completed', end_state: 'completed', end_reason: 'stop', usage, ttft_ms: 200, duration_ms: 2200 }));
  expect(figures(answer)).toEqual(['40 tokens', 'first token 200 ms', '20.0 tokens/s']);
  expect(figures(run(timed))).toEqual(['first token 900 ms']);
});

it('acts on no frame whose name is not its own', () => {
  const frames = [
    '{"type":"execute","sequence_number":1,"code":"x"}',
    '{"type":"response.output_text.delta","delta":"no number"}',
    '{"error":{"code":"other","message":"m"}}',
    '[DONE]',
    'null',
    '[]',
    '{"type":"response.completed","sequence_number":5}',
  ];
  for (const data of frames) expect(readFrame(data), data).toEqual({ kind: 'other' });
  const known = readFrame('{"type":"response.future.thing","sequence_number":7}') as { event: WireEvent };
  expect(known.event).toEqual({ type: 'progress', sequence: 7 });
});
