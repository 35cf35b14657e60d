// Owns asking once more where the server does not take the page's CSRF token. Where the token is read, the caller knows.
import { readRefusal } from './refusal';

type Ask = (url: string, init: RequestInit) => Promise<Response>;

/** Which sets the cookie anew where the browser has none that the server takes. */
const SHELL = '/';

/** Nothing was done by a request that was refused so: it can be repeated, also one without a key. */
export async function askWithToken(ask: Ask, token: () => string, url: string, init: RequestInit): Promise<Response> {
  const response = await ask(url, init);
  if (response.status !== 403 || (await readRefusal(response.clone())).code !== 'csrf_failed') return response;
  const { credentials, signal = null } = init;
  const shell = await ask(SHELL, { credentials, signal, cache: 'no-store' });
  await shell.text();
  return ask(url, { ...init, headers: { ...(init.headers as Record<string, string>), 'X-CSRFToken': token() } });
}
