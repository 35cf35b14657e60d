// Owns a stand-in for the real server, to look at the built page: serves dist under the real content policy and speaks
// the page's HTTP contract from memory. Words in a message choose what happens: "fail", "short", "cut", "busy", "slow";
// "bench NAME" plays a text of the bench, 300 deltas a second.
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { MockResponse } from './answers.mjs';
import { benchDeltas } from './bench_texts.mjs';
import { LONG, SHORT } from './text.mjs';

const DIST = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', '..', 'dist');
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };
const conversations = new Map();
const responses = new Map();
const busyKeys = new Set();
let counter = 1;

const json = (res, status, body, headers = {}) => {
  res.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  res.end(body === null ? '' : JSON.stringify(body));
};
const error = (res, status, code, message, headers) => json(res, status, { error: { code, message, type: code } }, headers);

async function page(res) {
  const nonce = randomBytes(16).toString('base64');
  const entry = JSON.parse(await readFile(path.join(DIST, 'manifest.json'), 'utf8'))['src/main.ts'];
  const styles = (entry.css ?? []).map((file) => `<link rel="stylesheet" href="/static/${file}">`).join('');
  res.writeHead(200, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy':
      `default-src 'none'; script-src 'nonce-${nonce}' 'strict-dynamic'; style-src 'self'; img-src 'self'; font-src 'self'; ` +
      "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
      "require-trusted-types-for 'script'; trusted-types app svelte-trusted-html",
  });
  res.end(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, ` +
      `initial-scale=1, viewport-fit=cover"><meta name="csrf-token" content="mock"><title>Chat</title>${styles}` +
      `<script type="module" nonce="${nonce}" src="/static/${entry.file}"></script></head><body><div id="app"></div>` +
      `<script id="boot" type="application/json">{"username":"ada","is_staff":true}</script></body></html>`,
  );
}

async function file(res, name) {
  try {
    const data = await readFile(path.join(DIST, path.normalize(name)));
    res.writeHead(200, { 'Content-Type': TYPES[path.extname(name)] ?? 'application/octet-stream' });
    res.end(data);
  } catch {
    res.writeHead(404).end();
  }
}

function stream(req, res, response, from) {
  res.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Response-ID': response.id });
  let cursor = from;
  const send = () => {
    while (cursor < response.events.length) res.write(response.frames(++cursor));
    if (response.end) res.end();
  };
  response.on('event', send);
  const beat = setInterval(() => res.write(': ping\n'), 15_000);
  res.on('close', () => {
    clearInterval(beat);
    response.off('event', send);
  });
  send();
  if (response.cutAt) setTimeout(() => res.destroy(), response.cutAt);
  response.cutAt = null;
}

function answerTo(conversation, user, key) {
  const text = user.text;
  const message = { id: `msg_${counter++}`, parent: user.id, role: 'assistant', created_at: new Date().toISOString() };
  for (const other of conversation.messages) responses.get(other.responseId)?.finish('cancelled', 'superseded', null);
  const bench = /^bench (\w+)$/.exec(text);
  const response = new MockResponse({
    text: /short/.test(text) ? SHORT : LONG,
    conversationId: conversation.id,
    userMessageId: user.id,
    messageId: message.id,
    delay_ms: bench ? 1000 / 300 : /slow/.test(text) ? 120 : 12,
    deltas: bench && benchDeltas(bench[1]),
    fail: /fail/.test(text) ? { after: 30, end_state: 'errored', end_reason: 'engine_aborted' } : null,
    key,
  });
  response.cutAt = /cut/.test(text) ? 700 : null;
  responses.set(response.id, response);
  conversation.messages.push({ ...message, responseId: response.id });
  return response;
}

function post(req, res, conversation, body) {
  const key = req.headers['idempotency-key'];
  const known = [...responses.values()].find((response) => response.key === key);
  if (known) return stream(req, res, known, 0);
  if (/busy/.test(body.text ?? '') && !busyKeys.has(key)) {
    busyKeys.add(key);
    return error(res, 503, 'overloaded', 'no room', { 'Retry-After': '4' });
  }
  if (/refuse/.test(body.text ?? '')) return error(res, 413, 'too_large', 'The message has 9000 tokens; the limit is 4096.');
  let user = conversation.messages.find((message) => message.id === body.regenerate);
  if (!user) {
    user = { id: `msg_${counter++}`, parent: body.parent, role: 'user', text: body.text, created_at: new Date().toISOString() };
    conversation.messages.push(user);
    conversation.title ||= body.text.slice(0, 60);
  }
  conversation.updated_at = new Date().toISOString();
  const response = answerTo(conversation, user, key);
  setTimeout(() => stream(req, res, response, 0), 300);
}

function stored(conversation) {
  const messages = conversation.messages.map(({ responseId, ...message }) => {
    const response = responses.get(responseId);
    if (!response) return { ...message, response: null };
    const object = response.object(response.end ? 'completed' : 'in_progress');
    const state = response.end ? 'ended' : 'running';
    const last_event_id = `${response.id}:1.${response.events.length}`;
    return { ...message, text: response.text, response: { ...object, state, last_event_id } };
  });
  return { id: conversation.id, title: conversation.title, model: 'mock-135m', messages };
}

function row(conversation) {
  const running = conversation.messages.map((message) => responses.get(message.responseId)).find((r) => r && !r.end);
  const { id, title, updated_at } = conversation;
  return { id, title, model: 'mock-135m', updated_at, running: running?.id ?? null };
}

async function api(req, res, url) {
  let data = '';
  for await (const chunk of req) data += chunk;
  const body = req.headers['content-type']?.startsWith('application/json') && data ? JSON.parse(data) : {};
  const [, , kind, id, what] = url.pathname.split('/');
  if (kind === 'models') return json(res, 200, { data: [{ id: 'mock-135m', context_tokens: 4096 }] });
  if (kind === 'conversations' && !id) {
    if (req.method === 'GET') {
      const data = [...conversations.values()].map(row).sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
      return json(res, 200, { data, next: null });
    }
    const made = { id: `c${counter++}`, title: '', messages: [], updated_at: new Date().toISOString() };
    conversations.set(made.id, made);
    return json(res, 200, row(made));
  }
  if (kind === 'conversations') {
    const conversation = conversations.get(id);
    if (!conversation) return error(res, 404, 'not_found', 'no such conversation');
    if (what === 'messages') return post(req, res, conversation, body);
    if (req.method === 'DELETE') return conversations.delete(id), res.writeHead(204).end();
    if (req.method === 'PATCH') return (conversation.title = body.title), json(res, 200, row(conversation));
    return json(res, 200, stored(conversation));
  }
  const key = req.headers['idempotency-key'];
  const response = id === 'cancel' ? [...responses.values()].find((r) => r.key === key) : responses.get(id);
  if (!response) return error(res, 404, 'not_found', 'no such response');
  if (what === 'leaving') return res.writeHead(204).end();
  if (what === 'stream') {
    const from = Number(/\.(\d+)$/.exec(req.headers['last-event-id'] ?? '')?.[1] ?? 0);
    return stream(req, res, response, from);
  }
  if (req.method === 'GET') return json(res, 200, { ...response.object(''), state: response.end ? 'ended' : 'running' });
  return setTimeout(() => {
    response.finish('cancelled', 'user', null);
    json(res, 200, response.object('cancelled'));
  }, 250);
}

/** Something to look at: conversations of several days. */
function seed() {
  const titles = ['How a stream reaches you', 'Tea or coffee?', 'Longest common prefix', 'एक सप्ताहांत की योजना', 'رحلة إلى البحر', 'Notes on rainbows'];
  titles.forEach((title, index) => {
    const user = { id: `msg_${counter++}`, parent: null, role: 'user', text: title, created_at: '' };
    const updated_at = new Date(Date.now() - index * 30 * 3_600_000).toISOString();
    const conversation = { id: `c${counter++}`, title, messages: [user], updated_at };
    conversations.set(conversation.id, conversation);
    const response = answerTo(conversation, user, null);
    clearInterval(response.timer);
    for (const piece of LONG.match(/\s*\S{1,4}/g)) response.push({ kind: 'text', text: piece });
    response.ttft_ms = 180;
    response.finish('completed', 'stop', 'stop');
    response.end.duration_ms = 5200;
  });
}

seed();
const server = createServer((req, res) => {
  const url = new URL(req.url, 'http://localhost');
  if (url.pathname.startsWith('/static/')) return void file(res, url.pathname.slice('/static/'.length));
  if (url.pathname.startsWith('/api/')) return void api(req, res, url);
  if (url.pathname === '/favicon.ico') return void res.writeHead(404).end();
  return void page(res);
});
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`));
