// Owns the list of conversations: pages of it, renaming, deleting, grouping by day. Opens none.
import type { Api, ConversationRow } from '../api';
import { words } from '../words';

export interface Group {
  name: string;
  rows: ConversationRow[];
}

export class ConversationList {
  rows: ConversationRow[] = $state.raw([]);
  next: string | null = $state(null);
  loaded = $state(false);
  /** The one that is not shown, because it is about to be deleted. */
  doomed: string | null = $state(null);
  readonly groups = $derived(
    groupByDay(
      this.rows.filter((row) => row.id !== this.doomed),
      new Date(),
    ),
  );

  /** Of refreshes under way only the last counts, and what was removed here does not come back with an old one. */
  #asked = 0;
  #isAsking = false;
  readonly #removed = new Set<string>();

  constructor(private readonly api: Api) {}

  async refresh(): Promise<void> {
    const asked = ++this.#asked;
    this.#isAsking = true;
    const page = await this.api.conversations().finally(() => asked === this.#asked && (this.#isAsking = false));
    if (asked !== this.#asked) return;
    page.data = page.data.filter((row) => !this.#removed.has(row.id));
    const fresh = new Set(page.data.map((row) => row.id));
    const oldest = page.data.at(-1)?.updated_at ?? '';
    // Pages that were loaded further down stay; what vanished from the first page is gone.
    const further = page.next === null ? [] : this.rows.filter((row) => !fresh.has(row.id) && row.updated_at < oldest);
    this.rows = [...page.data, ...further];
    if (further.length === 0) this.next = page.next;
    this.loaded = true;
  }

  async more(): Promise<void> {
    if (this.next === null) return;
    const page = await this.api.conversations(this.next);
    const known = new Set(this.rows.map((row) => row.id));
    this.rows = [...this.rows, ...page.data.filter((row) => !known.has(row.id))];
    this.next = page.next;
  }

  /** An answer has ended; false where only asking tells what the list is now. */
  answered(id: string, response: string): boolean {
    if (!this.loaded || this.#isAsking) return false;
    this.rows = this.rows.map((row) => (row.id === id && row.running === response ? { ...row, running: null } : row));
    return true;
  }

  titleOf(id: string | null): string {
    return this.rows.find((row) => row.id === id)?.title ?? '';
  }

  async rename(id: string, title: string): Promise<void> {
    this.rows = this.rows.map((row) => (row.id === id ? { ...row, title } : row));
    await this.api.renameConversation(id, title);
  }

  async pin(id: string, pinned: boolean): Promise<void> {
    this.rows = this.rows.map((row) => (row.id === id ? { ...row, pinned } : row));
    await this.api.pinConversation(id, pinned).finally(() => this.refresh());
  }

  /** Gone at once; back in its place if the server did not delete it. */
  async remove(id: string): Promise<void> {
    const before = this.rows;
    this.#removed.add(id);
    this.rows = before.filter((row) => row.id !== id);
    try {
      await this.api.deleteConversation(id);
    } catch (error) {
      this.#removed.delete(id);
      this.rows = before;
      throw error;
    }
  }
}

/** Pinned ones, then by day. */
export function groupByDay(rows: ConversationRow[], now: Date): Group[] {
  // Not so many times 24 hours: a day on which clocks change is shorter or longer.
  const daysAgo = (days: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - days).getTime();
  const limits: [string, number][] = [
    [words.pinned, Infinity],
    [words.today, daysAgo(0)],
    [words.yesterday, daysAgo(1)],
    [words.lastWeek, daysAgo(7)],
    [words.older, -Infinity],
  ];
  const groups = limits.map(([name]): Group => ({ name, rows: [] }));
  for (const row of rows) {
    const at_ms = Date.parse(row.updated_at) || 0;
    groups[row.pinned ? 0 : limits.findIndex(([, from]) => at_ms >= from)]!.rows.push(row);
  }
  return groups.filter((group) => group.rows.length > 0);
}
