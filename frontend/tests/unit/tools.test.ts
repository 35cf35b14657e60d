// Laws of calls that the server runs: a result finds its call by id, in whatever order and how often it comes.
import { expect, it } from 'vitest';

import type { StoredMessage, StoredResponse } from '../../src/lib/api';
import { asJson, asMarkdown } from '../../src/lib/export';
import { NEW_ANSWER, reduce, type Answer, type AnswerEvent } from '../../src/lib/state/answer';
import { announcement, isAtNothing, statusLine } from '../../src/lib/state/answer_words';
import { asBody, NO_OPTIONS, toolsToRun } from '../../src/lib/state/options';
import { callState, callWords, toolName } from '../../src/lib/state/step_words';
import { resultOf } from '../../src/lib/state/steps';
import { treeOf } from '../../src/lib/state/turns.svelte';
import { readOutput } from '../../src/lib/stream/items';
import { readFrame, readResponse, type WireEvent } from '../../src/lib/stream/protocol';
import { FakeEnv } from './fakes';

const LIVE = { kind: 'live' } as const;
const CLOSED = { kind: 'closed' } as const;
const TOOLS: Answer = { ...NEW_ANSWER, runsTools: true };

const wire = (sequence: number, body: object): AnswerEvent => {
  const frame = readFrame(JSON.stringify({ ...body, sequence_number: sequence }));
  return { kind: 'wire', event: (frame as { event: WireEvent }).event, at_ms: sequence };
};
const item = (sequence: number, what: string, output_index: number, body: object) =>
  wire(sequence, { type: `response.output_item.${what}`, output_index, item: body });
const call = (id: string, name: string, more: object = {}) =>
  ({ type: 'function_call', call_id: id, name, arguments: '{}', status: 'completed', ...more });
const result = (id: unknown, output: unknown, more: object = {}) =>
  ({ type: 'function_call_output', call_id: id, output, status: 'completed', ...more });
const delta = (sequence: number, text: string) => wire(sequence, { type: 'response.output_text.delta', delta: text });
const ended = (sequence: number, fields: object): AnswerEvent => ({
  kind: 'wire',
  event: { type: 'ended', sequence, response: readResponse({ id: 'resp_1', ...fields }) },
});
const run = (answer: Answer, ...events: AnswerEvent[]): Answer => events.reduce(reduce, answer);
const states = (answer: Answer): string[] =>
  answer.steps.flatMap((step) =>
    step.kind === 'call' ? [callState(step, { steps: answer.steps, live: !answer.closed, run: answer.runsTools })] : [],
  );

const CALLED = [
  item(17, 'added', 0, call('call_1', 'calculate', { status: 'in_progress', arguments: '' })),
  item(32, 'done', 0, call('call_1', 'calculate')),
  item(33, 'added', 1, call('call_2', 'current_time', { status: 'in_progress', arguments: '' })),
  item(48, 'done', 1, call('call_2', 'current_time')),
];
const FIRST = item(64, 'done', 2, result('call_1', '4'));
const SECOND = item(80, 'done', 3, result('call_2', 'The clock stood still.', { status: 'incomplete', error: 'timed_out' }));
const STOPPED = { status: 'cancelled', end_state: 'cancelled', end_reason: 'user' };

it('follows calls from their name to their result, one after the other', () => {
  let answer = run(TOOLS, CALLED[0]!);
  expect([states(answer), statusLine(answer, LIVE, 0).text]).toEqual([['writing'], 'Calling calculate…']);
  answer = run(answer, CALLED[1]!, CALLED[2]!);
  expect(states(answer)).toEqual(['waiting', 'writing']);
  answer = run(answer, CALLED[3]!);
  expect([states(answer), statusLine(answer, LIVE, 0).text]).toEqual([['running', 'waiting'], 'Running Calculator…']);
  expect(announcement(answer, LIVE)).toBe('Running Calculator…');
  answer = run(answer, FIRST);
  expect([states(answer), announcement(answer, LIVE)]).toEqual([['result', 'running'], 'Running Clock…']);
  answer = run(answer, SECOND);
  expect([states(answer), announcement(answer, LIVE)]).toEqual([['result', 'failed'], 'Clock: took too long']);
  expect([statusLine(answer, LIVE, 0).text, isAtNothing(answer)]).toEqual(['Thinking…', true]);
  const failed = resultOf(answer.steps, answer.steps[1]!);
  expect([callWords('failed', failed), failed?.text]).toEqual(['took too long', 'The clock stood still.']);
  answer = run(answer, delta(96, 'It is 4.'));
  expect([answer.text, statusLine(answer, LIVE, 0).text]).toEqual(['It is 4.', 'Writing…']);
});

it('is the same whatever is replayed, and in whatever order results come', () => {
  const events = [...CALLED, FIRST, SECOND, delta(96, 'x')];
  const once = run(TOOLS, ...events);
  expect(run(TOOLS, ...events, ...events)).toEqual(once);
  for (const cut of events.keys()) expect(run(TOOLS, ...events.slice(0, cut + 1), ...events)).toEqual(once);
  expect(run(once, { kind: 'reset' }, ...events).steps.map(({ text }) => text)).toEqual(once.steps.map(({ text }) => text));
  const early = run(TOOLS, item(16, 'done', 3, result('call_2', 'early')), item(17, 'added', 2, result('call_1', '4')), ...CALLED);
  expect(states(early)).toEqual(['result', 'result']);
  const twice = run(once, item(112, 'done', 7, result('call_1', 'another')), item(113, 'done', 8, result('call_9', 'of nobody')));
  expect([states(twice), resultOf(twice.steps, twice.steps[0]!)?.text]).toEqual([['result', 'failed'], '4']);
});

it('says so where the answer ended before a result came, and claims nothing of calls that nobody runs', () => {
  for (const events of [[], [FIRST]]) {
    const answer = run(TOOLS, ...CALLED, ...events, ended(96, STOPPED));
    expect(states(answer)).toEqual(events.length === 0 ? ['unanswered', 'unanswered'] : ['result', 'unanswered']);
    expect(announcement(answer, CLOSED)).toBe('Stopped');
  }
  expect(states(run(TOOLS, CALLED[0]!, ended(96, STOPPED)))).toEqual(['cut']);
  const shown = run(NEW_ANSWER, ...CALLED);
  expect([states(shown), announcement(shown, LIVE)]).toEqual([['complete', 'complete'], 'Answering']);
});

it('takes results of every shape as text, and runs on nothing that it does not know', () => {
  const odd = [null, 5, ['a'], { a: 1 }, undefined, true];
  for (const output of odd) expect(readOutput([result('call_1', output)])[0]).toMatchObject({ text: '', kind: 'result', done: true });
  for (const id of odd) expect(readOutput([result(id, 'x')])[0]).toMatchObject({ callId: '' });
  for (const error of odd) expect(readOutput([result('c', 'x', { error })])[0]?.error).toBeNull();
  for (const type of ['constructor', '__proto__', 'toString', 'function_call_outputs', null, {}]) expect(readOutput([{ type }])).toEqual([]);
  // A call without an id has no result, also where a result has none.
  const nameless = run(TOOLS, item(16, 'done', 0, call('', 'x')), item(32, 'done', 1, result('', 'y')));
  expect(states(nameless)).toEqual(['running']);
  for (const error of ['constructor', '__proto__', 'a_code_of_later']) {
    const answer = run(TOOLS, CALLED[1]!, item(64, 'done', 2, result('call_1', 'x', { error })));
    expect(callWords('failed', answer.steps[1]!)).toBe('failed');
  }
  expect(['constructor', 'calculate', 'new_tool'].map(toolName)).toEqual(['constructor', 'Calculator', 'new_tool']);
});

const stored = (response: Partial<StoredResponse>, text = '') =>
  [
    { id: 'u1', parent: null, role: 'user', text: 'q', created_at: '', response: null },
    { id: 'a1', parent: 'u1', role: 'assistant', text, created_at: '', response: { id: 'resp_1', ...response } },
  ] as unknown as StoredMessage[];

it('shows of a stored answer what was shown while it came', () => {
  const output = [{ type: 'message' }, call('call_1', 'calculate', { text_before: 12 }), result('call_1', '4', { text_before: 12 })];
  const state = { state: 'running', end_state: null, last_event_id: 'resp_1:1.9', run_tools: ['calculate'], output };
  const turn = treeOf(stored(state, '👩‍👩‍👧 Let me.It is 4.'), new FakeEnv()).path()[1]!;
  expect(turn.stretches.map(({ steps, text }) => [steps.length, text])).toEqual([
    [0, '👩‍👩‍👧 Let me'],
    [1, '.It is 4.'],
  ]);
  expect(states(turn.run!.answer)).toEqual(['result']);
  const waiting = treeOf(stored({ ...state, output: output.slice(0, 2) }), new FakeEnv()).path()[1]!.run!.answer;
  expect(states(waiting)).toEqual(['running']);
  expect(states(run(waiting, item(160, 'done', 2, result('call_1', '4'))))).toEqual(['result']);
  const bare = treeOf(stored({ ...state, run_tools: undefined, output: output.slice(0, 2) }), new FakeEnv()).path()[1]!.run!.answer;
  expect(states(bare)).toEqual(['complete']);
});

it('saves calls with their results, as code that cannot end early', () => {
  const output = [call('call_1', 'calculate', { arguments: '{"a": "`"}' }), result('call_1', '```\n# no heading')];
  const root = treeOf(stored({ state: 'ended', end_state: 'completed', end_reason: 'stop', output }, 'Done.'), new FakeEnv());
  expect(asMarkdown('T', root.path())).toContain('`` calculate: {"a": "`"} ``\n\n````\n```\n# no heading\n````\n\nDone.');
  expect(asJson('T', root)).toContain('"call_id": "call_1"');
  expect(JSON.parse(asJson('T', root)).messages[0].answers[0].steps[1]).toEqual({ kind: 'result', call_id: 'call_1', text: '```\n# no heading' });
});

it('asks for tools only where they can be run, and only for those that there are', () => {
  const options = { ...NO_OPTIONS, run_tools: ['current_time', 'gone', 'calculate'] };
  const there = ['calculate', 'current_time', 'search_conversations'];
  expect(asBody(options, true, there)).toEqual({ run_tools: ['calculate', 'current_time'] });
  expect(asBody(options, false, there)).toEqual({});
  expect(asBody(NO_OPTIONS, true, there)).toEqual({});
  expect(toolsToRun({ ...options, json: true }, there)).toEqual([]);
  expect(asBody({ ...options, tools: '[{"type": "function"}]' }, true, there)).toEqual({ tools: [{ type: 'function' }] });
});
