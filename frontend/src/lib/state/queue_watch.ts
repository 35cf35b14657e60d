// Owns asking for one response by its id, and whether it waits in the queue: its stream says nothing before it begins.
import type { Env } from '../stream/env';
import { parseObject } from '../stream/protocol';

/** An answer that begins at once is not asked about. */
const FIRST_MS = 300;
const AGAIN_MS = 2000;

/** Asks until `isWaiting` is no longer true; a failure is as good as no answer. */
export async function watchQueue(
  env: Env,
  responseId: string,
  isWaiting: () => boolean,
  onState: (queued: boolean) => void,
): Promise<void> {
  const pause = (delay_ms: number) => new Promise<void>((resolve) => env.clock.setTimeout(resolve, delay_ms));
  for (await pause(FIRST_MS); isWaiting(); await pause(AGAIN_MS)) {
    const body = await askResponse(env, responseId);
    if (body && isWaiting()) onState(body.state === 'queued');
  }
}

/** What the server says of a response; null where it says nothing. */
export async function askResponse(env: Env, responseId: string): Promise<Record<string, unknown> | null> {
  const init: RequestInit = { credentials: 'same-origin', cache: 'no-store' };
  const response = await env.fetch(`/api/responses/${responseId}`, init).catch(() => null);
  return response?.ok ? parseObject(await response.text().catch(() => '')) : null;
}
