// Owns the JSON calls of the page (everything but streams and cancel). Keeps nothing.
import { goToLogin } from './boot';
import type { Env } from './stream/env';
import type { FailureDetail } from './stream/protocol';
import { readRefusal, type Refusal } from './stream/refusal';

export interface ConversationRow {
  id: string;
  title: string;
  model: string | null;
  updated_at: string;
  pinned: boolean;
  running: string | null;
}

/** A message that a search found, or a title (`message` is null). */
export interface Hit {
  conversation: string;
  title: string;
  message: string | null;
  before: string;
  match: string;
  after: string;
}

export interface ModelRow {
  id: string;
  context_tokens: number;
  /** It may be given tools. */
  calls_tools: boolean;
}

export interface StoredResponse {
  id: string;
  state: string;
  end_state: string | null;
  end_reason: string | null;
  finish_reason: string | null;
  error: FailureDetail | null;
  model: string | null;
  usage: unknown;
  stop: unknown;
  ttft_ms: number | null;
  duration_ms: number | null;
  last_event_id: string | null;
  output?: unknown;
  /** The tools that the server runs for it. */
  run_tools?: string[];
  json_answer?: { judged: boolean; error: unknown } | null;
  age_ms?: number | null;
  mark?: Mark;
}

/** What the user thinks of an answer. */
export type Mark = 'good' | 'bad' | null;

export interface StoredMessage {
  id: string;
  parent: string | null;
  role: string;
  text: string;
  created_at: string;
  response: StoredResponse | null;
}

export interface StoredConversation {
  id: string;
  title: string;
  model: string | null;
  system_prompt: string;
  messages: StoredMessage[];
}

/** An API key as it can be listed: the key itself is not among it. */
export interface KeyRow {
  id: number;
  name: string;
  prefix: string;
  scopes: string[];
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

/** A shared link that works, without the link. */
export interface ShareRow {
  id: number;
  created_at: string;
}

/** What the answers of one model took on one day (UTC). */
export interface UsedRow {
  day: string;
  model: string;
  answers: number;
  prompt_tokens: number;
  completion_tokens: number;
}

export class ApiError extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.message || `HTTP ${refusal.status}`);
  }
}

export class Api {
  constructor(private readonly env: Env) {}

  conversations(before: string | null = null): Promise<{ data: ConversationRow[]; next: string | null }> {
    const query = before === null ? '' : `?before=${encodeURIComponent(before)}`;
    return this.#json('GET', `/api/conversations${query}`);
  }

  conversation(id: string): Promise<StoredConversation> {
    return this.#json('GET', `/api/conversations/${encodeURIComponent(id)}`);
  }

  createConversation(systemPrompt: string): Promise<ConversationRow> {
    return this.#json('POST', '/api/conversations', { system_prompt: systemPrompt });
  }

  tellConversation(id: string, systemPrompt: string): Promise<ConversationRow> {
    return this.#json('PATCH', `/api/conversations/${encodeURIComponent(id)}`, { system_prompt: systemPrompt });
  }

  renameConversation(id: string, title: string): Promise<ConversationRow> {
    return this.#json('PATCH', `/api/conversations/${encodeURIComponent(id)}`, { title });
  }

  pinConversation(id: string, pinned: boolean): Promise<ConversationRow> {
    return this.#json('PATCH', `/api/conversations/${encodeURIComponent(id)}`, { pinned });
  }

  /** Also said by a page that is going away. */
  async deleteConversation(id: string): Promise<void> {
    await this.#send('DELETE', `/api/conversations/${encodeURIComponent(id)}`, undefined, { keepalive: true });
  }

  search(text: string): Promise<{ data: Hit[] }> {
    return this.#json('GET', `/api/search?q=${encodeURIComponent(text)}`);
  }

  async mark(response: string, mark: Mark): Promise<void> {
    await this.#send('PATCH', `/api/responses/${response}`, { mark });
  }

  models(): Promise<{ data: ModelRow[] }> {
    return this.#json('GET', '/api/models');
  }

  shares(conversation: string): Promise<{ data: ShareRow[] }> {
    return this.#json('GET', `/api/conversations/${encodeURIComponent(conversation)}/shares`);
  }

  share(conversation: string, message: string): Promise<{ path: string }> {
    return this.#json('POST', `/api/conversations/${encodeURIComponent(conversation)}/shares`, { message });
  }

  async revokeShare(conversation: string, id: number): Promise<void> {
    await this.#send('DELETE', `/api/conversations/${encodeURIComponent(conversation)}/shares/${id}`);
  }

  usage(): Promise<{ data: UsedRow[] }> {
    return this.#json('GET', '/api/me/usage');
  }

  keys(): Promise<{ data: KeyRow[] }> {
    return this.#json('GET', '/api/me/keys');
  }

  createKey(name: string, expires_in_days: number | null, scopes: string[]): Promise<{ key: string }> {
    return this.#json('POST', '/api/me/keys', { name, expires_in_days, scopes });
  }

  async revokeKey(id: number): Promise<void> {
    await this.#send('DELETE', `/api/me/keys/${id}`);
  }

  async #json<T>(method: string, url: string, body?: unknown): Promise<T> {
    return (await (await this.#send(method, url, body)).json()) as T;
  }

  async #send(method: string, url: string, body?: unknown, more: RequestInit = {}): Promise<Response> {
    const headers: Record<string, string> = { Accept: 'application/json' };
    if (method !== 'GET') headers['X-CSRFToken'] = this.env.csrfToken();
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store', ...more };
    const response = await this.env.fetch(url, body === undefined ? init : { ...init, body: JSON.stringify(body) });
    if (response.ok) return response;
    if (response.status === 401) goToLogin();
    throw new ApiError(await readRefusal(response));
  }
}
