// Owns the responses of the mock server: how one grows, how it is read from any cursor, how it ends.
import { EventEmitter } from 'node:events';

let next = 1;

export class MockResponse extends EventEmitter {
  constructor({ text, conversationId, userMessageId, messageId, delay_ms, deltas, fail = null, key = null }) {
    super();
    this.setMaxListeners(0);
    this.id = `resp_mock${next++}`;
    Object.assign(this, { conversationId, userMessageId, messageId, key, end: null, events: [{ kind: 'started' }] });
    this.started_ms = Date.now();
    this.ttft_ms = null;
    const pieces = deltas ?? text.match(/\s*\S{1,4}/g) ?? [];
    let index = 0;
    const advance = () => {
      if (fail && index === fail.after) return this.finish(fail.end_state, fail.end_reason, null);
      if (index === pieces.length) return this.finish('completed', 'stop', 'stop');
      this.ttft_ms ??= Date.now() - this.started_ms;
      this.push({ kind: 'text', text: pieces[index++] });
    };
    // A timer has whole milliseconds and comes late; what is due by now comes at once.
    this.timer = setInterval(() => {
      const due = Math.floor((Date.now() - this.started_ms) / delay_ms);
      do advance();
      while (!this.end && index < due);
    }, Math.max(1, Math.floor(delay_ms)));
  }

  get text() {
    return this.events.map((event) => event.text ?? '').join('');
  }

  get tokens() {
    return this.events.filter((event) => event.kind === 'text').length;
  }

  push(event) {
    this.events.push(event);
    this.emit('event');
  }

  finish(end_state, end_reason, finish_reason) {
    if (this.end) return;
    clearInterval(this.timer);
    this.end = { end_state, end_reason, finish_reason, duration_ms: Date.now() - this.started_ms };
    if (end_state === 'cancelled') {
      const count = this.tokens;
      this.stop = { stop_ms: 40, generated_tokens: count, sent_tokens: count, tokens_after_stop: 0, abort_proven: true };
    }
    this.push({ kind: 'ended' });
    this.emit('end');
  }

  object(status) {
    const { end } = this;
    return {
      id: this.id,
      object: 'response',
      status,
      model: 'mock-135m',
      conversation_id: this.conversationId,
      user_message_id: this.userMessageId,
      message_id: this.messageId,
      end_state: end?.end_state ?? null,
      end_reason: end?.end_reason ?? null,
      finish_reason: end?.finish_reason ?? null,
      error: end?.end_state === 'errored' ? { code: end.end_reason, message: 'the engine failed' } : null,
      stop: this.stop ?? null,
      ttft_ms: this.ttft_ms,
      duration_ms: end?.duration_ms ?? null,
      usage: { input_tokens: 20, output_tokens: this.tokens, generated_tokens: this.tokens, sent_tokens: this.tokens },
    };
  }

  /** The frames of the event numbered `seq`. */
  frames(seq) {
    const event = this.events[seq - 1];
    const id = `${this.id}:1.${seq}`;
    const frame = (type, fields, number, withId) =>
      `event: ${type}\n${withId ? `id: ${id}\n` : ''}data: ${JSON.stringify({ type, sequence_number: number, ...fields })}\n\n`;
    const before = 16 * (seq - 1);
    if (event.kind === 'started') {
      return (
        frame('response.created', { response: this.object('in_progress') }, before + 1, false) +
        frame('response.in_progress', { response: this.object('in_progress') }, 16 * seq, true)
      );
    }
    if (event.kind === 'text') return frame('response.output_text.delta', { delta: event.text }, 16 * seq, true);
    const type = { completed: 'completed', cancelled: 'incomplete' }[this.end.end_state] ?? 'failed';
    const status = { completed: 'completed', cancelled: 'cancelled' }[this.end.end_state] ?? 'failed';
    return (
      frame('response.output_text.done', { text: this.text }, before + 1, false) +
      frame(`response.${type}`, { response: this.object(status) }, 16 * seq, true)
    );
  }
}
