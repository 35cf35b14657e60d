// Owns the proof that an answer which was long on its way brings nothing back into the list of conversations.
import { expect, test } from 'vitest';
import type { Api, ConversationRow } from '../../src/lib/api';
import { ConversationList } from '../../src/lib/state/list.svelte';

type Page = { data: ConversationRow[]; next: string | null };

function row(id: string): ConversationRow {
  return { id, title: id, model: 'm', updated_at: '2026-01-01T00:00:00Z', pinned: false, running: null };
}

function listed() {
  const waiting: ((page: Page) => void)[] = [];
  const api = {
    conversations: () => new Promise<Page>((answer) => waiting.push(answer)),
    deleteConversation: () => Promise.resolve(),
  };
  return { list: new ConversationList(api as unknown as Api), waiting };
}

const ids = (list: ConversationList) => list.rows.map((each) => each.id);

test('what was deleted does not come back with an answer that was asked for before', async () => {
  const { list, waiting } = listed();
  const refreshed = list.refresh();
  await list.remove('a');
  waiting[0]!({ data: [row('a'), row('b')], next: null });
  await refreshed;
  expect(ids(list)).toEqual(['b']);
});

test('of two answers that overtake each other the newer question counts', async () => {
  const { list, waiting } = listed();
  const [older, newer] = [list.refresh(), list.refresh()];
  waiting[1]!({ data: [row('new')], next: null });
  await newer;
  waiting[0]!({ data: [row('old')], next: null });
  await older;
  expect(ids(list)).toEqual(['new']);
});
