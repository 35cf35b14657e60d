// Owns turning one body of bytes into server-sent events and noticing its silence. Knows nothing of what events mean.
import { createParser, type EventSourceMessage } from 'eventsource-parser';

import type { Clock } from './env';

const MAX_EVENT_CHARS = 8 * 2 ** 20;

/** How long the server may take to close a stream whose last event came. */
const DRAIN_MS = 5000;

export interface EventReader {
  /** Resolves at the last event that was wanted, or when the body ended, broke, fell silent or was closed. */
  finished: Promise<void>;
  close(): void;
}

/** `onEvent` returns true at the last event that is wanted. */
export function readEvents(
  body: ReadableStream<Uint8Array>,
  clock: Clock,
  silence_ms: number,
  onEvent: (event: EventSourceMessage) => boolean,
): EventReader {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const withLineFeeds = lineFeeds();
  let stopped = false;
  const close = () => {
    stopped = true;
    reader.cancel().catch(() => undefined);
  };
  const parser = createParser({
    maxBufferSize: MAX_EVENT_CHARS,
    onEvent: (event) => {
      if (!stopped) stopped = onEvent(event);
    },
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') close();
    },
  });

  async function pump(): Promise<void> {
    while (!stopped) {
      const piece = await read(reader, clock, silence_ms, close);
      if (piece === null) return;
      parser.feed(withLineFeeds(decoder.decode(piece, { stream: true })));
    }
    void drain(reader, clock, close);
  }

  return { finished: pump(), close };
}

/** Every line end as LF: the library waits behind a CR for its LF, but a CR ends its line, also as the last byte. */
function lineFeeds(): (text: string) => string {
  let afterReturn = false;
  return (text) => {
    const rest = afterReturn && text.startsWith('\n') ? text.slice(1) : text;
    if (text !== '') afterReturn = text.endsWith('\r');
    return rest.replace(/\r\n?/g, '\n');
  };
}

/** The next bytes; null at the end of the body, be it a clean one, a broken one or that of our patience. */
async function read(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  clock: Clock,
  silence_ms: number,
  close: () => void,
): Promise<Uint8Array | null> {
  const silence = clock.setTimeout(close, silence_ms);
  try {
    const { done, value } = await reader.read();
    return done ? null : value;
  } catch {
    return null; // a broken body: what matters is that no terminal event came
  } finally {
    clock.clearTimeout(silence);
  }
}

/** Lets the server close the stream itself, so that a finished request does not look like one that was torn down. */
async function drain(reader: ReadableStreamDefaultReader<Uint8Array>, clock: Clock, close: () => void): Promise<void> {
  const patience = clock.setTimeout(close, DRAIN_MS);
  try {
    while (!(await reader.read()).done);
  } catch {
    // nothing more was wanted from it
  } finally {
    clock.clearTimeout(patience);
  }
}
