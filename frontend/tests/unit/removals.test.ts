// Owns the proof of when a conversation that was deleted is gone for good.
import { expect, test } from 'vitest';
import type { ConversationRow } from '../../src/lib/api';
import { Removals, UNDO_MS } from '../../src/lib/state/removals.svelte';
import { FakeEnv } from './fakes';

const row = (id: string) => ({ id, title: id }) as ConversationRow;

function removing() {
  const env = new FakeEnv();
  const deleted: string[] = [];
  return { env, deleted, removals: new Removals(env.clock, { onDelete: ({ id }) => deleted.push(id) }) };
}

test('it is deleted when its time is over, and once', async () => {
  const { env, deleted, removals } = removing();
  removals.begin(row('a'));
  await env.pass(UNDO_MS - 1);
  expect(deleted).toEqual([]);
  await env.pass(1);
  removals.finish();
  expect(deleted).toEqual(['a']);
});

test('it comes back when asked in time, and its time stands still while somebody is at the notice', async () => {
  const { env, deleted, removals } = removing();
  removals.begin(row('a'));
  removals.wait();
  await env.pass(10 * UNDO_MS);
  removals.goOn();
  await env.pass(UNDO_MS - 1);
  expect(removals.undo()?.id).toBe('a');
  await env.pass(UNDO_MS);
  expect(deleted).toEqual([]);
});

test('another deletion, or leaving the page, makes the earlier one final', () => {
  const { deleted, removals } = removing();
  removals.begin(row('a'));
  removals.begin(row('b'));
  expect(deleted).toEqual(['a']);
  removals.finish();
  expect(deleted).toEqual(['a', 'b']);
});
