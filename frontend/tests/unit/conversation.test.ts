// Laws of the message tree, the list and the drafts.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { asMarkdown } from '../../src/lib/export';
import { dropDraft, keepDraft, readDraft, wipeDrafts } from '../../src/lib/state/drafts';
import { groupByDay } from '../../src/lib/state/list.svelte';
import { Conversation } from '../../src/lib/state/conversation.svelte';
import { figures } from '../../src/lib/state/answer_words';
import { isWithin, LIMITS } from '../../src/lib/state/options';
import { treeOf } from '../../src/lib/state/turns.svelte';
import type { Api, StoredMessage, StoredResponse } from '../../src/lib/api';
import { FakeEnv, framesAfter, ID, endedResponse, refusal, settle, sse } from './fakes';

const message = (id: string, parent: string | null, role: string, response: Partial<StoredResponse> | null = null) =>
  ({ id, parent, role, text: `text of ${id}`, created_at: '', response }) as StoredMessage;

afterEach(() => vi.unstubAllGlobals());

const ENDED = { id: 'resp_1', state: 'ended', end_state: 'completed', end_reason: 'stop' };

it('shows the newest branch, and the older one when it is chosen', () => {
  const root = treeOf(
    [
      message('u1', null, 'user'),
      message('a1', 'u1', 'assistant', ENDED),
      message('a2', 'u1', 'assistant', ENDED),
      message('u2', 'a2', 'user'),
    ],
    new FakeEnv(),
  );
  expect(root.path().map((turn) => turn.id)).toEqual(['u1', 'a2', 'u2']);
  root.children[0]!.chosen = 0;
  expect(root.path().map((turn) => turn.id)).toEqual(['u1', 'a1']);
});

it('goes on from the stored text where a response still runs', () => {
  const running = { id: 'resp_2', state: 'running', end_state: null, last_event_id: 'resp_2:1.42' };
  const root = treeOf([message('u1', null, 'user'), message('a1', 'u1', 'assistant', running)], new FakeEnv());
  const answer = root.path()[1]!.run!.answer;
  expect(answer).toMatchObject({ text: 'text of a1', sequence: 16 * 42, closed: false, responseId: 'resp_2', end: null });
});

it('is answered by the model it had, as the server does it, unless another one is chosen', async () => {
  const stored = async () => ({ id: 'c', title: '', model: 'its own', system_prompt: '', messages: [message('u1', null, 'user')] });
  const hooks = { toolsFor: () => [], onCreated: () => undefined, onChanged: () => undefined };
  const conversation = new Conversation(new FakeEnv(), { conversation: stored } as unknown as Api, hooks, 'c');
  await conversation.load();
  expect(conversation.model).toBe('its own');
  conversation.model = 'chosen';
  await conversation.load();
  expect(conversation.model).toBe('chosen');
});

it('counts no tokens of a loaded answer that still runs, and asks for its figures when it has ended', async () => {
  const row = { id: ID, state: 'running', end_state: null, last_event_id: `${ID}:1.3`, usage: { completion_tokens: 0 }, ttft_ms: null };
  const messages = [message('u1', null, 'user'), message('a1', 'u1', 'assistant', row)];
  const stored = async () => ({ id: 'c', title: '', model: null, system_prompt: '', messages });
  const usage = { output_tokens: 37 };
  const figuresOfRow = { ...endedResponse(), usage: { completion_tokens: 37 }, ttft_ms: 250, duration_ms: 4250 };
  const env = new FakeEnv(
    () => new Promise((answer) => env.clock.setTimeout(() => answer(sse(framesAfter(3, endedResponse({ usage })))), 100)),
    () => Response.json(figuresOfRow),
  );
  const hooks = { toolsFor: () => [], onCreated: () => undefined, onChanged: () => undefined };
  const conversation = new Conversation(env, { conversation: stored } as unknown as Api, hooks, 'c');
  await conversation.load();
  const answer = () => conversation.turns.at(-1)!.run!.latest;
  expect([answer().closed, figures(answer())]).toEqual([false, []]);
  await env.pass(200);
  expect([answer().closed, figures(answer())]).toEqual([true, ['37 tokens', 'first token 250 ms', '9.3 tokens/s']]);
  expect(env.sent.map(({ url }) => url)).toEqual([`/api/responses/${ID}/stream`, `/api/responses/${ID}`]);
});

it('keeps a message that was sent while the conversation was being looked at once more', async () => {
  const messages = [message('u1', null, 'user'), message('a1', 'u1', 'assistant', ENDED)];
  const env = new FakeEnv(() => new Promise(() => undefined));
  let answer: (stored: object) => void = () => undefined;
  const stored = () => new Promise<object>((resolve) => (answer = resolve));
  const hooks = { toolsFor: () => [], onCreated: () => undefined, onChanged: () => undefined };
  const conversation = new Conversation(env, { conversation: stored } as unknown as Api, hooks, 'c');
  const reply = { id: 'c', title: '', model: null, system_prompt: '', messages };
  const first = conversation.load();
  answer(reply);
  await first;
  const second = conversation.load();
  void conversation.send('meanwhile');
  answer(reply);
  await second;
  expect([conversation.turns.map(({ text }) => text)[2], conversation.loading]).toEqual(['meanwhile', 'no']);
});

it('takes no look that is older than a message, also where its answer has ended by then', async () => {
  const before = [message('u1', null, 'user'), message('a1', 'u1', 'assistant', ENDED)];
  const after = [...before, message('u', 'a1', 'user'), message('m', 'u', 'assistant', { ...ENDED, id: ID })];
  const env = new FakeEnv(() => sse(framesAfter(0, endedResponse())));
  const waiting: ((stored: object) => void)[] = [];
  const stored = () => new Promise<object>((resolve) => waiting.push(resolve));
  const reply = (messages: StoredMessage[]) => ({ id: 'c', title: '', model: null, system_prompt: '', messages });
  const hooks = { toolsFor: () => [], onCreated: () => undefined, onChanged: () => undefined };
  const conversation = new Conversation(env, { conversation: stored } as unknown as Api, hooks, 'c');
  const first = conversation.load();
  waiting.shift()!(reply(before));
  await first;
  const second = conversation.load();
  void conversation.send('meanwhile');
  await settle();
  expect([conversation.running, waiting.length]).toEqual([false, 1]);
  waiting.shift()!(reply(before));
  await settle();
  expect(conversation.turns.map(({ id }) => id)).toEqual(['u1', 'a1', 'u', 'm']);
  waiting.shift()!(reply(after));
  await second;
  expect(conversation.turns.map(({ id }) => id)).toEqual(['u1', 'a1', 'u', 'm']);
});

it('keeps no draft of a message that was sent again, when it hears late that the first one was not stored', async () => {
  const stopped = { code: 'cancelled', message: '', end_state: 'cancelled', end_reason: 'user' };
  const env = new FakeEnv(
    () => Response.json({ error: stopped }, { status: 409, headers: { 'X-Response-ID': 'resp_0' } }),
    () => sse(framesAfter(0, endedResponse())),
  );
  const waiting: ((stored: object) => void)[] = [];
  const stored = () => new Promise<object>((resolve) => waiting.push(resolve));
  const hooks = { toolsFor: () => [], onCreated: () => undefined, onChanged: () => undefined };
  const conversation = new Conversation(env, { conversation: stored } as unknown as Api, hooks, 'c');
  const first = conversation.load();
  waiting.shift()!({ id: 'c', title: '', model: null, system_prompt: '', messages: [] });
  await first;
  await conversation.send('once more');
  await settle();
  expect(waiting).toHaveLength(1);
  await conversation.again(conversation.turns.at(-1)!);
  await settle();
  expect(conversation.turns.at(-1)!.id).toBe('m');
  waiting.shift()!({ id: 'c', title: '', model: null, system_prompt: '', messages: [] });
  await settle();
  expect(readDraft('c')).toBe('');
});

it('takes the numbers that the server takes', () => {
  const fits = (name: keyof typeof LIMITS, ...values: (number | null)[]) => values.map((value) => isWithin(value, LIMITS[name]));
  expect(fits('temperature', null, 0, 0.25, 2, 2.1, -1)).toEqual([true, true, true, true, false, false]);
  expect(fits('max_tokens', null, 1, 1_000_000, 0, 1.5, 1_000_001)).toEqual([true, true, true, false, false, false]);
});

it('takes an answer and what was written on from it as one answer to one question', () => {
  const cut = { ...ENDED, end_state: 'cancelled', end_reason: 'user' };
  const root = treeOf(
    [message('u1', null, 'user'), message('a1', 'u1', 'assistant', cut), message('a2', 'a1', 'assistant', cut), message('a3', 'a2', 'assistant', ENDED)],
    new FakeEnv(),
  );
  const [question, first, second, last] = root.path();
  expect(last!.earlierParts).toEqual([first, second]);
  expect(last!.wholeText).toBe('text of a1text of a2text of a3');
  expect(last!.question).toBe(question);
  expect([first!.earlierParts, question!.earlierParts]).toEqual([[], []]);
  const markdown = asMarkdown('Title', root.path());
  expect(markdown.match(/## Assistant/g)).toHaveLength(1);
  expect(markdown).toContain('text of a1text of a2text of a3');
});

it('groups the list by day, after what is pinned', () => {
  const now = new Date(2026, 10, 20, 12);
  const row = (id: string, at: Date, pinned = false) => ({ id, title: id, model: null, pinned, running: null, updated_at: at.toISOString() });
  const rows = [
    row('now', now),
    row('early', new Date(2026, 10, 20, 0, 1)),
    row('late', new Date(2026, 10, 19, 23, 59)),
    row('week', new Date(2026, 10, 15)),
    row('old', new Date(2025, 1, 1)),
    row('dear', new Date(2024, 1, 1), true),
  ];
  expect(groupByDay(rows, now).map((group) => [group.name, group.rows.map(({ id }) => id)])).toEqual([
    ['Pinned', ['dear']],
    ['Today', ['now', 'early']],
    ['Yesterday', ['late']],
    ['Previous 7 days', ['week']],
    ['Older', ['old']],
  ]);
});

it('groups by days of the calendar, also where one of them has 23 or 25 hours', () => {
  vi.stubEnv('TZ', 'Europe/Berlin');
  try {
    const row = (at: Date) => ({ id: 'c', title: 'c', model: null, pinned: false, running: null, updated_at: at.toISOString() });
    const group = (at: Date, now: Date) => groupByDay([row(at)], now)[0]!.name;
    expect([new Date(2026, 2, 29, 12), new Date(2026, 9, 25, 12)].map((at) => at.getTimezoneOffset())).toEqual([-120, -60]);
    expect(group(new Date(2026, 2, 28, 23, 30), new Date(2026, 2, 30, 12))).toBe('Previous 7 days');
    expect(group(new Date(2026, 9, 25, 0, 30), new Date(2026, 9, 26, 12))).toBe('Yesterday');
    expect(group(new Date(2026, 9, 20, 0, 30), new Date(2026, 9, 27, 12))).toBe('Previous 7 days');
    expect(group(new Date(2024, 1, 28, 23), new Date(2024, 2, 1, 12))).toBe('Previous 7 days');
  } finally {
    vi.unstubAllEnvs();
  }
});

beforeEach(() => localStorage.clear());

it('drops a draft when its message was accepted, unless something else was typed since', () => {
  keepDraft('c1', 'sent');
  dropDraft('c1', 'sent');
  expect(readDraft('c1')).toBe('');
  keepDraft('c1', 'typed since');
  dropDraft('c1', 'sent');
  expect(readDraft('c1')).toBe('typed since');
});

it('wipes all drafts at sign-out, and nothing else', () => {
  keepDraft(null, 'a');
  keepDraft('c1', 'b');
  localStorage.setItem('theme', 'dark');
  wipeDrafts();
  expect([readDraft(null), readDraft('c1'), localStorage.getItem('theme')]).toEqual(['', '', 'dark']);
});

it('sends under a key of its own each time, also where the browser lends no randomUUID, as over plain HTTP', async () => {
  vi.stubGlobal('crypto', { getRandomValues: crypto.getRandomValues.bind(crypto) });
  const reply = () => sse(framesAfter(0, endedResponse()));
  const env = new FakeEnv(reply, reply);
  const stored = async () => ({ id: 'c', title: '', model: null, system_prompt: '', messages: [] });
  const hooks = { toolsFor: () => [], onCreated: () => undefined, onChanged: () => undefined };
  const conversation = new Conversation(env, { conversation: stored } as unknown as Api, hooks, 'c');
  await conversation.load();
  for (const text of ['one', 'two']) {
    await conversation.send(text);
    await settle();
  }
  const keys = env.sent.map(({ headers }) => headers.get('Idempotency-Key'));
  expect(new Set(keys).size).toBe(2);
  for (const key of keys) expect(key).toMatch(/^\d+-\d+-\d+-\d+$/);
});

it('keeps a message that was refused, and why, whatever is told of its conversation meanwhile', async () => {
  const env = new FakeEnv(() => refusal(429, 'over_quota', { 'Retry-After': '4000' }));
  let asked = 0;
  const stored = async () => ((asked += 1), { id: 'c', title: '', model: null, system_prompt: '', messages: [] });
  const hooks = { toolsFor: () => [], onCreated: () => undefined, onChanged: () => undefined };
  const conversation = new Conversation(env, { conversation: stored } as unknown as Api, hooks, 'c');
  await conversation.send('too many');
  await settle();
  await conversation.load();
  conversation.follow('resp_elsewhere');
  await settle();
  expect(conversation.turns.map(({ role, run }) => [role, run?.latest.refusal?.code])).toEqual([
    ['user', undefined],
    ['assistant', 'over_quota'],
  ]);
  expect(asked).toBe(0);
});

it('learns from the store under which ids an answer stands that ended before its stream began', async () => {
  const body = JSON.stringify({ error: { code: 'cancelled', message: '', end_state: 'cancelled', end_reason: 'user' } });
  const env = new FakeEnv(() => new Response(body, { status: 409, headers: { 'X-Response-ID': 'resp_1' } }));
  const messages = [message('u1', null, 'user'), message('a1', 'u1', 'assistant', { ...ENDED, end_state: 'cancelled', end_reason: 'user' })];
  const stored = async () => ({ id: 'c', title: '', model: null, system_prompt: '', messages });
  const hooks = { toolsFor: () => [], onCreated: () => undefined, onChanged: () => undefined };
  const conversation = new Conversation(env, { conversation: stored } as unknown as Api, hooks, 'c');
  await conversation.send('stopped at once');
  await settle();
  await settle();
  expect(conversation.turns.map(({ id }) => id)).toEqual(['u1', 'a1']);
});
