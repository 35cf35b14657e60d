// Owns what a person was issued (keys, links) as its window shows it: the rows, the newest once, what went wrong.

export class Issued<Row> {
  /** Null until they have come. */
  rows: Row[] | null = $state.raw(null);
  /** What was just made; it cannot be shown again. */
  made: string | null = $state(null);
  trouble: string | null = $state(null);

  constructor(private readonly list: () => Promise<{ data: Row[] }>) {}

  look(): Promise<void> {
    return this.after(async () => {});
  }

  /** Does something, and looks at the rows anew. */
  async after(action: () => Promise<void>): Promise<void> {
    this.trouble = null;
    try {
      await action();
      this.rows = (await this.list()).data;
    } catch (error) {
      this.trouble = error instanceof Error ? error.message : String(error);
    }
  }
}
