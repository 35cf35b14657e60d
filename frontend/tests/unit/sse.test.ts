// Laws of reading an event stream: the cases that the Python parser is held to as well, for every cut and line end.
import { describe, expect, it } from 'vitest';

import { readEvents } from '../../src/lib/stream/sse';
import table from '../../../tests/cases/sse.json';
import { FakeEnv } from './fakes';

interface Case {
  name: string;
  stream?: string;
  hex?: string;
  as_is?: boolean;
  page_differs?: string;
  events: string[][];
}

const CASES = table.cases as Case[];
const LINE_ENDS = { LF: [10], CRLF: [13, 10], CR: [13] };

function bytesOf(one: Case, end: number[]): Uint8Array<ArrayBuffer> {
  const raw = one.hex === undefined ? [...new TextEncoder().encode(one.stream)] : one.hex.match(/../g)!.map((h) => parseInt(h, 16));
  return Uint8Array.from(one.as_is ? raw : raw.flatMap((byte) => (byte === 10 ? end : [byte])));
}

async function read(pieces: Uint8Array<ArrayBuffer>[]): Promise<string[][]> {
  const events: string[][] = [];
  let lastId = '';
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  await readEvents(body, new FakeEnv().clock, 1000, (event) => {
    lastId = event.id ?? lastId;
    events.push([event.event ?? 'message', event.data, lastId]);
    return false;
  }).finished;
  return events;
}

describe.each(Object.entries(LINE_ENDS))('with %s', (_, end) => {
  it.each(CASES.filter((one) => !one.page_differs))('$name', async (one) => {
    const raw = bytesOf(one, end);
    expect(await read([raw])).toEqual(one.events);
    expect(await read([...raw].map((byte) => Uint8Array.of(byte)))).toEqual(one.events);
    for (let cut = 0; cut <= raw.length; cut += 1) {
      expect(await read([raw.slice(0, cut), raw.slice(cut)]), `cut at byte ${cut}`).toEqual(one.events);
    }
  });
});

it.each(CASES.filter((one) => one.page_differs))('still differs: $name', async (one) => {
  expect(await read([bytesOf(one, LINE_ENDS.LF)])).not.toEqual(one.events);
});
