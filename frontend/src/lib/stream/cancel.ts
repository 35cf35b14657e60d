// Owns asking the server to stop a response, by id or by the key of a POST whose id is not known yet.
import { backoff_ms } from './backoff';
import type { Env } from './env';
import { parseObject, readResponse, type ResponseObject } from './protocol';
import { readRefusal, type Refusal } from './refusal';

const TRIES = 5;

export type CancelResult = { kind: 'answered'; response: ResponseObject } | { kind: 'failed'; refusal: Refusal | null };

/** Idempotent on the server, so it is repeated over a broken network. */
export async function cancelResponse(env: Env, responseId: string | null, key: string | null): Promise<CancelResult> {
  for (let attempt = 1; ; attempt += 1) {
    const response = await send(env, responseId, key);
    if (response?.ok) {
      const body = parseObject(await response.text().catch(() => ''));
      if (body) return { kind: 'answered', response: readResponse(body) };
    }
    if (response && response.status < 500 && !response.ok) {
      return { kind: 'failed', refusal: await readRefusal(response) };
    }
    if (attempt === TRIES) return { kind: 'failed', refusal: null };
    await new Promise<void>((resolve) => env.clock.setTimeout(resolve, backoff_ms(attempt, env.random)));
  }
}

async function send(env: Env, responseId: string | null, key: string | null): Promise<Response | null> {
  const headers: Record<string, string> = { 'X-CSRFToken': env.csrfToken(), Accept: 'application/json' };
  if (responseId === null && key !== null) headers['Idempotency-Key'] = key;
  const url = responseId === null ? '/api/responses/cancel' : `/api/responses/${responseId}/cancel`;
  try {
    return await env.fetch(url, { method: 'POST', credentials: 'same-origin', headers });
  } catch {
    return null;
  }
}
