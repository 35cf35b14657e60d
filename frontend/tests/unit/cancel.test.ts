// Laws of stopping: by id or by key, repeated over a broken network, told from the server's answer.
import { expect, it } from 'vitest';

import { Run } from '../../src/lib/state/run.svelte';
import { NEW_ANSWER, type Answer } from '../../src/lib/state/answer';
import { cancelResponse } from '../../src/lib/stream/cancel';
import { endedResponse, FakeEnv, framesAfter, ID, PIECES, refusal, settle, sse, unreachable, type Reply } from './fakes';

const CANCELLED = endedResponse({ status: 'cancelled', end_state: 'cancelled', end_reason: 'user', stop: { generated_tokens: 7 } });
const cancelled: Reply = () => new Response(JSON.stringify(CANCELLED));
const POST = { kind: 'post', url: '/api/conversations/c/messages', body: { text: 'hi' }, key: 'key-1' } as const;

async function start(env: FakeEnv): Promise<{ run: Run; closed: Answer[] }> {
  const run = new Run(env, NEW_ANSWER);
  const closed: Answer[] = [];
  const nothing = () => undefined;
  run.start(POST, { onKnown: nothing, onClosed: (answer) => closed.push(answer), onGone: nothing, onLogin: nothing });
  await settle();
  return { run, closed };
}

it('names the response by its id, or by the key while the id is not known', async () => {
  const env = new FakeEnv(cancelled, cancelled);
  await cancelResponse(env, ID, 'key-1');
  await cancelResponse(env, null, 'key-1');
  expect(env.sent.map((sent) => [sent.method, sent.url, sent.headers.get('Idempotency-Key')])).toEqual([
    ['POST', `/api/responses/${ID}/cancel`, null],
    ['POST', '/api/responses/cancel', 'key-1'],
  ]);
});

it('is repeated over a broken network and given up after five tries', async () => {
  const env = new FakeEnv(unreachable, () => new Response('', { status: 502 }), cancelled);
  const result = cancelResponse(env, ID, null);
  await env.pass(60_000);
  expect((await result).kind).toBe('answered');
  const dead = new FakeEnv(...Array<Reply>(5).fill(unreachable));
  const failed = cancelResponse(dead, ID, null);
  await dead.pass(60_000);
  expect(await failed).toEqual({ kind: 'failed', refusal: null });
});

it('keeps reading after the answer to stop, until the terminal event', async () => {
  const text = PIECES.slice(0, 2);
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) });
  const frames = framesAfter(0, CANCELLED, text);
  const cut = frames.indexOf(': ping', frames.indexOf(': ping') + 1);
  const send = (wire: string) => controller.enqueue(new TextEncoder().encode(wire));
  const env = new FakeEnv(() => new Response(body, { headers: { 'Content-Type': 'text/event-stream' } }), cancelled);
  const { run, closed } = await start(env);
  send(frames.slice(0, cut));
  await settle();
  const stopped = run.stop();
  expect(run.latest.stop).toBe('asked');
  await stopped;
  expect(run.latest.end?.reason).toBe('user');
  expect(closed).toHaveLength(0);
  send(frames.slice(cut));
  await settle();
  expect(run.latest.text).toBe(text.join(''));
  expect(closed).toHaveLength(1);
});

it('is asked again by id when the key did not do and the id became known', async () => {
  let answer!: (response: Response) => void;
  const later: Reply = () => new Promise((resolve) => (answer = resolve));
  const env = new FakeEnv(later, () => (answer(sse('', 'open', { 'X-Response-ID': ID })), refusal(405, 'x')), cancelled);
  const { run } = await start(env);
  await run.stop();
  expect(env.sent.slice(1).map((sent) => sent.url)).toEqual(['/api/responses/cancel', `/api/responses/${ID}/cancel`]);
  expect(run.latest.end?.state).toBe('cancelled');
});

it('ends at once while the POST only waits to be repeated', async () => {
  const env = new FakeEnv(() => refusal(503, 'overloaded', { 'Retry-After': '60' }), cancelled);
  const { run, closed } = await start(env);
  await run.stop();
  expect(env.sent[1]!.headers.get('Idempotency-Key')).toBe('key-1');
  expect(run.latest).toMatchObject({ closed: true, end: { state: 'cancelled' } });
  await env.pass(600_000);
  expect(env.sent).toHaveLength(2);
  expect(closed).toHaveLength(1);
});

it('asks only once for an answer that is stopping or over', async () => {
  const env = new FakeEnv(() => sse('', 'open', { 'X-Response-ID': ID }), cancelled);
  const { run } = await start(env);
  await Promise.all([run.stop(), run.stop()]);
  await run.stop();
  expect(env.sent).toHaveLength(2);
});
