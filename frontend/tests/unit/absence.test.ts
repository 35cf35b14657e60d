// Laws of a page that nobody looks at: it gives its connection back only where its socket stands in, and loses nothing.
import { expect, it } from 'vitest';

import { HIDDEN_MS } from '../../src/lib/stream/absence';
import { Connection, type Target } from '../../src/lib/stream/connection';
import { cursorOf, FakeEnv, framesAfter, ID, Recorder, resume, settle, silent, TEXT, type Reply } from './fakes';

const FOLLOW: Target = { kind: 'follow', responseId: ID, lastEventId: null };
const POST: Target = { kind: 'post', url: '/api/conversations/c/messages', body: {}, key: 'key-1' };

/** Opens streams that give the beginning, or nothing more, and stay open; `open` is how many are. */
class Streams {
  open = 0;
  readonly reply: Reply = (sent) => {
    this.open += 1;
    const bytes = new TextEncoder().encode(cursorOf(sent) === 0 ? framesAfter(0).slice(0, 700) : ': ping\n');
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(bytes),
      cancel: () => void (this.open -= 1),
    });
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream', 'X-Response-ID': ID } });
  };
}

function reading(target: Target, ...replies: Reply[]) {
  const streams = new Streams();
  const env = new FakeEnv(...(replies.length > 0 ? replies : [streams.reply, resume]));
  const sink = new Recorder();
  const connection = new Connection(env, target, sink);
  const done = connection.run();
  return { env, sink, connection, done, streams };
}

/** Hidden, and the server counts its socket. */
async function away(target: Target = FOLLOW) {
  const page = reading(target);
  await page.env.pass(0);
  page.env.tell('hidden');
  await page.env.pass(HIDDEN_MS);
  expect(page.env.said).toEqual([`reading ${ID}`]);
  expect(page.streams.open, 'a stream was given back without a presence').toBe(1);
  page.env.standIns.counted(ID);
  await settle();
  expect(page.streams.open).toBe(0);
  return page;
}

it('keeps its stream when it is hidden for a moment', async () => {
  const { env, streams } = reading(FOLLOW);
  await env.pass(0);
  env.tell('hidden');
  await env.pass(HIDDEN_MS - 1);
  env.tell('visible');
  await env.pass(20_000);
  expect([env.said, streams.open]).toEqual([[], 1]);
});

it.each([FOLLOW, POST])('gives it back when it is counted, and reads on where it was when somebody looks', async (target) => {
  const { env, sink, done } = await away(target);
  await env.pass(600_000);
  expect(env.sent).toHaveLength(1);
  const shown = sink.answer.text;
  expect(TEXT.startsWith(shown) && shown.length > 0).toBe(true);
  env.tell('visible');
  await settle();
  expect(env.sent[1]!.headers.get('Last-Event-ID')).toMatch(/:1\.\d$/);
  await done;
  expect(sink.answer.text).toBe(TEXT);
  for (const text of sink.texts) expect(TEXT.startsWith(text), text).toBe(true);
  expect(sink.statuses.map(({ kind }) => kind)).toEqual(['connecting', 'live', 'live', 'closed']);
  expect(env.said).toEqual([`reading ${ID}`, `not_reading ${ID}`]);
});

it('says that it no longer reads by its socket only when a stream does', async () => {
  const page = reading(FOLLOW, new Streams().reply, silent, resume);
  await page.env.pass(0);
  page.env.tell('hidden');
  await page.env.pass(HIDDEN_MS);
  page.env.standIns.counted(ID);
  await settle();
  page.env.tell('visible');
  await page.env.pass(20_000);
  expect(page.env.said).toEqual([`reading ${ID}`]);
  await page.env.pass(20_000);
  await page.done;
  expect(page.env.said).toEqual([`reading ${ID}`, `not_reading ${ID}`]);
});

it('keeps its stream without a socket, and gives it back when there is one', async () => {
  const { env, streams } = reading(FOLLOW);
  const said = env.said!;
  env.said = null;
  await env.pass(0);
  env.tell('hidden');
  await env.pass(20_000);
  expect(streams.open).toBe(1);
  env.said = said;
  await env.pass(HIDDEN_MS);
  env.standIns.counted(ID);
  await settle();
  expect([said, streams.open]).toEqual([[`reading ${ID}`], 0]);
});

it('keeps its stream where the server does not count it, and asks again late', async () => {
  const { env, streams } = reading(FOLLOW);
  await env.pass(0);
  env.tell('hidden');
  await env.pass(HIDDEN_MS);
  env.standIns.over(ID);
  await env.pass(19_000);
  expect([env.said!.length, streams.open]).toEqual([1, 1]);
  await env.pass(1000);
  expect(env.said).toEqual([`reading ${ID}`, `reading ${ID}`]);
});

it('keeps its stream when somebody looks before it is counted', async () => {
  const { env, streams } = reading(FOLLOW);
  await env.pass(0);
  env.tell('hidden');
  await env.pass(HIDDEN_MS);
  env.tell('visible');
  env.standIns.counted(ID);
  await settle();
  expect([env.said, streams.open]).toEqual([[`reading ${ID}`, `not_reading ${ID}`], 1]);
});

it('reads by a stream at once when its socket is lost', async () => {
  const { env, sink, done } = await away();
  env.said = null;
  env.standIns.lost();
  await done;
  expect(sink.answer.text).toBe(TEXT);
  expect(env.delays_ms).not.toContain(500);
});

it('fetches the rest when it is told the end, still hidden', async () => {
  const { env, sink, done } = await away();
  env.standIns.over(ID);
  await done;
  expect([sink.answer.text, sink.answer.end?.state]).toEqual([TEXT, 'completed']);
  expect(env.said).toEqual([`reading ${ID}`]);
});

it('is not away from what ended while it was being counted', async () => {
  let end = (): void => undefined;
  const { env, sink, done } = reading(FOLLOW, () => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        end = () => controller.enqueue(new TextEncoder().encode(framesAfter(0)));
      },
    });
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
  });
  await env.pass(0);
  env.tell('hidden');
  await env.pass(HIDDEN_MS);
  end();
  await done;
  env.standIns.counted(ID);
  await env.pass(600_000);
  expect([sink.answer.text, env.sent.length]).toEqual([TEXT, 1]);
  expect(env.said).toEqual([`reading ${ID}`, `not_reading ${ID}`]);
});

it('asks under its key, not by an id that it does not know', async () => {
  const { env, connection } = reading(POST, silent);
  env.tell('hidden');
  await env.pass(20_000);
  expect(env.said).toEqual([]);
  connection.close();
});

it('ends when it is left for good', async () => {
  const { connection, done, env } = await away();
  connection.close();
  await done;
  expect([env.sent.length, env.said!.at(-1)]).toEqual([1, `not_reading ${ID}`]);
});

it('is away from the beginning in a tab that was opened behind others, and may be away again', async () => {
  const streams = new Streams();
  const env = new FakeEnv(streams.reply, streams.reply, resume);
  env.hidden = true;
  const sink = new Recorder();
  const done = new Connection(env, FOLLOW, sink).run();
  for (const round of [1, 2]) {
    await env.pass(HIDDEN_MS);
    env.standIns.counted(ID);
    await settle();
    expect(streams.open, `round ${round}`).toBe(0);
    env.standIns.over(ID);
    await env.pass(0);
  }
  await done;
  expect(sink.answer.text).toBe(TEXT);
});

it('gives it back when another conversation is shown, and reads on when its own is, whatever the page does meanwhile', async () => {
  const { env, connection, streams, done, sink } = reading(FOLLOW);
  await env.pass(0);
  connection.show(false);
  await env.pass(HIDDEN_MS);
  expect(env.said).toEqual([`reading ${ID}`]);
  env.standIns.counted(ID);
  await settle();
  expect(streams.open).toBe(0);
  for (const event of ['hidden', 'visible', 'online'] as const) env.tell(event);
  await env.pass(60_000);
  expect([env.sent.length, env.said]).toEqual([1, [`reading ${ID}`]]);
  connection.show(true);
  await done;
  expect([env.sent.length, sink.answer.text]).toEqual([2, TEXT]);
  expect(env.said).toEqual([`reading ${ID}`, `not_reading ${ID}`]);
});

it('has the end of an answer whose conversation is not shown as soon as it is told', async () => {
  const { env, connection, done, sink } = reading(FOLLOW);
  await env.pass(0);
  connection.show(false);
  await env.pass(HIDDEN_MS);
  env.standIns.counted(ID);
  await settle();
  env.standIns.over(ID);
  await done;
  expect([env.sent.length, sink.answer.text, sink.answer.closed]).toEqual([2, TEXT, true]);
});

it('keeps its stream when its conversation is shown again before the server has counted', async () => {
  const { env, connection, streams } = reading(FOLLOW);
  await env.pass(0);
  connection.show(false);
  await env.pass(HIDDEN_MS);
  connection.show(true);
  env.standIns.counted(ID);
  await env.pass(20_000);
  expect([streams.open, env.sent.length]).toEqual([1, 1]);
  expect(env.said).toEqual([`reading ${ID}`, `not_reading ${ID}`]);
});
