// Laws of following a response: wherever the bytes are cut, the shown text ends equal, and no POST is paid twice.
import { describe, expect, it } from 'vitest';

import { Connection, SILENCE_MS, type Target } from '../../src/lib/stream/connection';
import {
  cursorOf,
  endedResponse,
  FakeEnv,
  framesAfter,
  ID,
  Recorder,
  refusal,
  resume,
  settle,
  silent,
  sse,
  TEXT,
  unreachable,
  type BodyEnd,
  type Reply,
} from './fakes';

const POST: Target = { kind: 'post', url: '/api/conversations/c/messages', body: { text: 'hi' }, key: 'key-1' };
const MINUTES_MS = 600_000;

async function follow(replies: Reply[], target: Target = POST) {
  const env = new FakeEnv(...replies);
  const sink = new Recorder();
  const connection = new Connection(env, target, sink);
  const done = connection.run();
  await env.pass(MINUTES_MS);
  return { env, sink, connection, done };
}

const whole = new TextEncoder().encode(framesAfter(0));

describe.each<BodyEnd>(['broken', 'clean'])('a body with a %s end', (end) => {
  it('is carried on without a lost or doubled character, wherever it is cut', async () => {
    for (let cut = 0; cut < whole.length; cut += 1) {
      const { sink, done } = await follow([() => sse(whole.slice(0, cut), end, { 'X-Response-ID': ID }), resume]);
      await done;
      expect(sink.answer.text, `cut at byte ${cut}`).toBe(TEXT);
      expect(sink.answer.end?.state).toBe('completed');
      for (const text of sink.texts) expect(TEXT.startsWith(text), `cut at byte ${cut}: ${text}`).toBe(true);
    }
  });
});

it('reads a body that comes byte by byte', async () => {
  const { env, sink } = await follow([
    () => {
      let next = 0;
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          if (next < whole.length) controller.enqueue(whole.slice(next, ++next));
          else controller.close();
        },
      });
      return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
    },
  ]);
  expect(sink.answer.text).toBe(TEXT);
  expect(env.sent).toHaveLength(1);
});

it('survives a cut in every reconnect', async () => {
  const cutting: Reply = (sent) => sse(new TextEncoder().encode(framesAfter(cursorOf(sent))).slice(0, 260), 'broken');
  const { sink, done } = await follow([() => sse(whole.slice(0, 700)), ...Array<Reply>(12).fill(cutting), resume]);
  await done;
  expect(sink.answer.text).toBe(TEXT);
});

it('shows nothing twice when a server replays more than was asked for', async () => {
  for (const cut of [500, 900, 1200]) {
    const { sink } = await follow([() => sse(whole.slice(0, cut)), () => sse(framesAfter(1))]);
    for (const text of sink.texts) expect(TEXT.startsWith(text), text).toBe(true);
    expect(sink.answer.text).toBe(TEXT);
  }
});

it('asks with the id of the last event that it took', async () => {
  const upTo = framesAfter(0).indexOf('नमस्ते');
  const { env } = await follow([() => sse(framesAfter(0).slice(0, upTo)), resume]);
  expect(env.sent[1]).toMatchObject({ url: `/api/responses/${ID}/stream`, method: 'GET' });
  expect(env.sent[1]!.headers.get('Last-Event-ID')).toBe(`${ID}:1.4`);
});

it('repeats a POST that failed before the response was known, with the same key and body', async () => {
  const { env, sink } = await follow([unreachable, silent, () => new Response('', { status: 502 }), resume]);
  expect(env.sent.map((sent) => sent.method)).toEqual(['POST', 'POST', 'POST', 'POST']);
  expect(new Set(env.sent.map((sent) => sent.headers.get('Idempotency-Key')))).toEqual(new Set(['key-1']));
  expect(new Set(env.sent.map((sent) => sent.body)).size).toBe(1);
  expect(sink.answer.text).toBe(TEXT);
});

it('never repeats the POST once the response is known by its header', async () => {
  const { env, sink } = await follow([() => sse('', 'broken', { 'X-Response-ID': ID }), unreachable, resume]);
  expect(env.sent.map((sent) => sent.method)).toEqual(['POST', 'GET', 'GET']);
  expect(env.sent[1]!.headers.get('Last-Event-ID')).toBeNull();
  expect(sink.answer.text).toBe(TEXT);
});

it('sends the CSRF token with the POST', async () => {
  const { env } = await follow([resume]);
  expect(env.sent[0]!.headers.get('X-CSRFToken')).toBe('token');
});

it('takes a detached frame for a lost connection, not for an error', async () => {
  const detached = `data: ${JSON.stringify({ error: { code: 'stream_detached', resumable: true, last_event_id: `${ID}:1.3` } })}\n\n`;
  const upTo = framesAfter(0).indexOf(': ping\nevent: response.output_text.delta\nid: resp_1:1.4');
  const { env, sink } = await follow([() => sse(framesAfter(0).slice(0, upTo) + detached, 'open'), resume]);
  expect(env.sent[1]!.headers.get('Last-Event-ID')).toBe(`${ID}:1.3`);
  expect(sink.refusal).toBeNull();
  expect(sink.answer.text).toBe(TEXT);
});

it('gives a silent stream up after 30 s, and not while heartbeats come', async () => {
  const env = new FakeEnv(() => sse(framesAfter(0).slice(0, 400), 'open'), resume);
  const sink = new Recorder();
  void new Connection(env, POST, sink).run();
  await env.pass(SILENCE_MS - 1);
  expect(env.sent).toHaveLength(1);
  await env.pass(20_000);
  expect(env.sent).toHaveLength(2);
  expect(sink.answer.text).toBe(TEXT);
});

it('keeps a stream that only pings', async () => {
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) });
  const env = new FakeEnv(() => new Response(body, { headers: { 'Content-Type': 'text/event-stream' } }));
  void new Connection(env, POST, new Recorder()).run();
  for (let beat = 0; beat < 10; beat += 1) {
    await env.pass(15_000);
    controller.enqueue(new TextEncoder().encode(': ping\n'));
  }
  expect(env.sent).toHaveLength(1);
});

it('backs off up to 15 s while nothing answers', async () => {
  const { env, sink } = await follow([...Array<Reply>(9).fill(unreachable), resume]);
  const waits = env.delays_ms.filter((delay) => delay !== SILENCE_MS && delay !== 5000);
  expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000, 15_000]);
  expect(sink.statuses).toContainEqual(expect.objectContaining({ kind: 'reconnecting', attempt: 9 }));
});

it('tries at once when the network or the reader comes back', async () => {
  for (const event of ['online', 'visible'] as const) {
    const env = new FakeEnv(...Array<Reply>(5).fill(unreachable), resume);
    const sink = new Recorder();
    void new Connection(env, POST, sink).run();
    await env.pass(500 + 1000 + 2000 + 4000);
    expect(env.sent).toHaveLength(5);
    env.tell(event);
    await settle();
    expect(env.sent).toHaveLength(6);
    expect(sink.answer.text).toBe(TEXT);
  }
});

it('opens a new stream when the network was away under a live one', async () => {
  const env = new FakeEnv(() => sse(framesAfter(0).slice(0, 400), 'open'), resume);
  const sink = new Recorder();
  void new Connection(env, POST, sink).run();
  await settle();
  env.tell('offline');
  expect(sink.statuses.at(-1)).toEqual({ kind: 'offline' });
  env.tell('online');
  await env.pass(0);
  expect(env.sent).toHaveLength(2);
  expect(sink.answer.text).toBe(TEXT);
});

it('reads from the start and replaces the text when the log changed', async () => {
  const other = ['Another', ' text'];
  const { env, sink } = await follow([
    () => sse(framesAfter(0).slice(0, 900), 'broken'),
    () => refusal(409, 'log_changed'),
    (sent) => sse(framesAfter(cursorOf(sent), endedResponse(), other)),
  ]);
  expect(env.sent[2]!.headers.get('Last-Event-ID')).toBeNull();
  expect(sink.resets).toBe(1);
  expect(sink.answer.text).toBe('Another text');
});

it('counts down and sends again when the server was busy before the stream', async () => {
  const env = new FakeEnv(() => refusal(503, 'overloaded', { 'Retry-After': '7' }), resume);
  const sink = new Recorder();
  void new Connection(env, POST, sink).run();
  await env.pass(6999);
  expect(sink.statuses.at(-1)).toEqual({ kind: 'waiting', status: 503, why: 'because overloaded', until_ms: 7000 });
  env.tell('visible');
  await env.pass(0);
  expect(env.sent).toHaveLength(1);
  await env.pass(1);
  expect(env.sent[1]!.headers.get('Idempotency-Key')).toBe('key-1');
  expect(sink.answer.text).toBe(TEXT);
});

it('tells of a wait that is too long instead of waiting', async () => {
  const { env, sink } = await follow([() => refusal(429, 'over_quota', { 'Retry-After': '3600' })]);
  expect(env.sent).toHaveLength(1);
  expect(sink.refusal).toMatchObject({ status: 429, code: 'over_quota', retryAfter_s: 3600 });
});

it('ends with the words of the server when it refuses', async () => {
  for (const status of [400, 403, 404, 413, 422]) {
    const { env, sink } = await follow([() => refusal(status, 'some_code')]);
    expect(env.sent).toHaveLength(1);
    expect(sink.refusal).toEqual({ status, code: 'some_code', message: 'because some_code', retryAfter_s: null, end: null });
  }
});

it('takes a response that ended before its stream for ended: asking again would meet the same end', async () => {
  const ended = { code: 'errored', message: 'm', end_state: 'errored', end_reason: 'upstream_error' };
  for (const status of [409, 502, 503, 504]) {
    const body = JSON.stringify({ error: ended });
    const headers = { 'X-Response-ID': ID, 'Retry-After': '5', 'Content-Type': 'application/json' };
    const { env, sink } = await follow([() => new Response(body, { status, headers })]);
    expect(env.sent).toHaveLength(1);
    expect(sink.refusal?.end).toEqual({ state: 'errored', reason: 'upstream_error', responseId: ID });
  }
});

it('knows an expired log and an expired session', async () => {
  const target: Target = { kind: 'follow', responseId: ID, lastEventId: null };
  expect((await follow([() => refusal(410, 'log_expired')], target)).sink.gone).toBe(true);
  expect((await follow([() => refusal(401, 'login_required')], target)).sink.login).toBe(true);
});

it('goes on from a text that came with the messages', async () => {
  const env = new FakeEnv(resume);
  const sink = new Recorder();
  sink.answer = { ...sink.answer, text: TEXT.slice(0, 'Héllo wörld'.length), sequence: 16 * 3 };
  void new Connection(env, { kind: 'follow', responseId: ID, lastEventId: `${ID}:1.3` }, sink).run();
  await env.pass(0);
  expect(env.sent[0]!.headers.get('Last-Event-ID')).toBe(`${ID}:1.3`);
  expect(sink.answer.text).toBe(TEXT);
});

it('is silent after it was closed', async () => {
  const env = new FakeEnv(() => sse(framesAfter(0).slice(0, 400), 'open'));
  const sink = new Recorder();
  const connection = new Connection(env, POST, sink);
  const done = connection.run();
  await settle();
  connection.close();
  await done;
  await env.pass(MINUTES_MS);
  expect(env.sent).toHaveLength(1);
});
