// Owns the proof that the page's socket is kept open, and knows when it is dead and when to try again.
import { expect, test } from 'vitest';
import { Live, type Told } from '../../src/lib/stream/live';
import { FakeEnv, settle } from './fakes';

class FakeSocket {
  sent: string[] = [];
  isClosed = false;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  send(text: string): void {
    this.sent.push(text);
  }
  close(): void {
    this.isClosed = true;
  }
  says(message: unknown): void {
    this.onmessage?.({ data: typeof message === 'string' ? message : JSON.stringify(message) });
  }
}

function started() {
  const env = new FakeEnv();
  const sockets: FakeSocket[] = [];
  const told: Told[] = [];
  const said: string[] = [];
  const open = () => {
    sockets.push(new FakeSocket());
    return sockets.at(-1) as unknown as WebSocket;
  };
  const live = new Live(env, open, {
    onTold: (one) => told.push(one),
    onConnected: (again) => said.push(again ? 'again' : 'first'),
    onLost: () => said.push('lost'),
    onCounted: (id, counted) => said.push(`${id} ${counted}`),
    onSignedOut: () => said.push('signed out'),
  });
  live.start();
  return { env, live, sockets, told, said, greet: () => sockets.at(-1)!.says({ type: 'hello', heartbeat_s: 10 }) };
}

test('it is open from the greeting on, and tells what it is told', () => {
  const { live, sockets, told, said, greet } = started();
  expect(live.isOpen).toBe(false);
  expect(live.say('stop', 'resp_1')).toBe(false);
  greet();
  expect(live.isOpen).toBe(true);
  expect(said).toEqual(['first']);
  for (const odd of ['', '{', '[]', 'null', '{"type":"execute"}', '{"type":5}', '{"type":"heartbeat"}']) sockets[0]!.says(odd);
  sockets[0]!.says({ type: 'response.started', conversation: 'conv_1', response: 'resp_1' });
  sockets[0]!.says({ type: 'conversations', conversation: 7 });
  expect(told).toEqual([
    { kind: 'response.started', conversation: 'conv_1', response: 'resp_1' },
    { kind: 'conversations', conversation: null, response: null },
  ]);
  expect(live.say('stop', 'resp_1')).toBe(true);
  expect(sockets[0]!.sent).toEqual(['{"type":"stop","response":"resp_1"}']);
});

test('a silence of two heartbeats is a lost connection', async () => {
  const { env, live, sockets, said, greet } = started();
  greet();
  await env.pass(19_000);
  sockets[0]!.says({ type: 'heartbeat' });
  await env.pass(19_000);
  expect(live.isOpen).toBe(true);
  await env.pass(1_500);
  expect(sockets).toHaveLength(2);
  expect(sockets[0]!.isClosed).toBe(true);
  greet();
  expect(said).toEqual(['first', 'lost', 'again']);
});

test('it says who reads, and tells whether that counts', () => {
  const { live, sockets, said, greet } = started();
  greet();
  expect(live.say('reading', 'resp_1')).toBe(true);
  expect(sockets[0]!.sent).toEqual(['{"type":"reading","response":"resp_1"}']);
  sockets[0]!.says({ type: 'reading', response: 'resp_1' });
  sockets[0]!.says({ type: 'not_reading', response: 'resp_1', code: 'ended' });
  for (const odd of [{ type: 'reading' }, { type: 'reading', response: 5 }, { type: 'not_reading', response: '' }]) sockets[0]!.says(odd);
  expect(said).toEqual(['first', 'resp_1 true', 'resp_1 false']);
});

test('a server that is not there is asked less and less often', async () => {
  const { env, sockets } = started();
  const waits: number[] = [];
  for (let attempt = 0; attempt < 8; attempt += 1) {
    sockets.at(-1)!.onclose?.({ code: 1006 });
    waits.push(env.delays_ms.at(-1)!);
    await env.pass(waits.at(-1)!);
    expect(sockets).toHaveLength(attempt + 2);
  }
  expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
});

test('a server that restarts is asked again soon, a full one late, and after a logout nobody is', async () => {
  const { env, live, sockets, said, greet } = started();
  greet();
  sockets[0]!.onclose?.({ code: 1012 });
  expect(env.delays_ms.at(-1)).toBe(500);
  await env.pass(500);
  sockets[1]!.onclose?.({ code: 4429 });
  await env.pass(59_000);
  expect(sockets).toHaveLength(2);
  await env.pass(16_000);
  expect(sockets).toHaveLength(3);
  greet();
  sockets[2]!.onclose?.({ code: 4401 });
  await env.pass(600_000);
  expect(said.at(-1)).toBe('signed out');
  expect(sockets).toHaveLength(3);
  expect(live.isOpen).toBe(false);
});

test('the network that comes back is not waited for', async () => {
  const { env, sockets } = started();
  for (let attempt = 0; attempt < 6; attempt += 1) {
    sockets.at(-1)!.onclose?.({ code: 1006 });
    if (attempt < 5) await env.pass(15_000);
  }
  const before = sockets.length;
  env.tell('online');
  await settle();
  expect(sockets).toHaveLength(before + 1);
});

test('what was closed hears, asks and says nothing more', async () => {
  const { env, live, sockets, told } = started();
  live.close();
  sockets[0]!.says({ type: 'hello', heartbeat_s: 1 });
  sockets[0]!.says({ type: 'conversations' });
  sockets[0]!.onclose?.({ code: 1006 });
  env.tell('online');
  await env.pass(600_000);
  expect([sockets.length, told.length, live.isOpen]).toEqual([1, 0, false]);
});
