// Laws of a token that the server does not take: asked for anew once, the same request again, everything else as it came.
import { expect, it } from 'vitest';

import { askWithToken } from '../../src/lib/stream/token';

const refused = (status: number, code: string) => new Response(JSON.stringify({ error: { code } }), { status });

function server(...replies: Response[]) {
  const asked: [string, RequestInit][] = [];
  const ask = async (url: string, init: RequestInit) => {
    asked.push([url, init]);
    return replies[asked.length - 1]!;
  };
  const token = () => `token ${asked.length}`;
  const init = { method: 'POST', body: '{"a": 1}', credentials: 'same-origin', headers: { 'X-CSRFToken': 'old', 'Idempotency-Key': 'k' } } as const;
  return { asked, init, answer: () => askWithToken(ask, token, '/api/x', init) };
}

it('asks once more with the token that the shell brought, and changes nothing else', async () => {
  const { asked, init, answer } = server(refused(403, 'csrf_failed'), new Response('shell'), new Response('done'));
  expect(await (await answer()).text()).toBe('done');
  expect(asked.map(([url]) => url)).toEqual(['/api/x', '/', '/api/x']);
  expect(asked[1]![1]).toMatchObject({ credentials: 'same-origin', cache: 'no-store' });
  expect(asked[1]![1].method).toBeUndefined();
  expect(asked[2]![1]).toEqual({ ...init, headers: { 'X-CSRFToken': 'token 2', 'Idempotency-Key': 'k' } });
});

it('takes no for an answer the second time', async () => {
  const { asked, answer } = server(refused(403, 'csrf_failed'), new Response('shell'), refused(403, 'csrf_failed'));
  const response = await answer();
  expect([response.status, asked.length, await response.text()]).toEqual([403, 3, '{"error":{"code":"csrf_failed"}}']);
});

it('asks once where something else is the matter', async () => {
  for (const reply of [refused(403, 'forbidden'), refused(401, 'csrf_failed'), new Response('no JSON', { status: 403 }), new Response('ok')]) {
    const { asked, answer } = server(reply);
    expect(await answer()).toBe(reply);
    expect([asked.length, reply.bodyUsed]).toEqual([1, false]);
  }
});
