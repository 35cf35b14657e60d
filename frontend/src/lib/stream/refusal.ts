// Owns what a JSON refusal of the server says. Decides nothing about it.
import { retryAfter_s } from './backoff';
import { parseObject } from './protocol';

export interface Refusal {
  status: number;
  code: string;
  message: string;
  retryAfter_s: number | null;
  /** Set where the response began and ended before its stream did: there is an end to show, nothing to try again. */
  end: { state: string; reason: string; responseId: string | null } | null;
}

export async function readRefusal(response: Response): Promise<Refusal> {
  const body = parseObject(await response.text().catch(() => ''));
  const error = (body?.error ?? {}) as Record<string, unknown>;
  return {
    status: response.status,
    code: typeof error.code === 'string' ? error.code : '',
    message: typeof error.message === 'string' ? error.message : '',
    retryAfter_s: retryAfter_s(response.headers.get('Retry-After'), Date.now()),
    end: readEnd(error, response.headers.get('X-Response-ID')),
  };
}

function readEnd(error: Record<string, unknown>, responseId: string | null): Refusal['end'] {
  const { end_state: state, end_reason: reason } = error;
  if (typeof state !== 'string' || state === 'rejected') return null;
  return { state, reason: typeof reason === 'string' ? reason : '', responseId };
}
