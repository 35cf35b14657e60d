// Owns the whole page's state: which conversation is open, which are kept alive, the address bar. Draws nothing.
import { Api, type ConversationRow, type ModelRow } from '../api';
import { csrfToken, goToLogin } from '../boot';
import { cancelResponse } from '../stream/cancel';
import { browserEnv } from '../stream/env';
import { Live, siteSocket, type Told } from '../stream/live';
import { StandIns } from '../stream/stand_ins';
import { Conversation } from './conversation.svelte';
import { ConversationList } from './list.svelte';
import { Removals } from './removals.svelte';
import { Search } from './search.svelte';
import { Tabs } from './tabs';

const GATHER_MS = 100;
/** Signing out waits no longer for a deletion to be taken. */
const LAST_WORD_MS = 2000;
const PATH = /^\/c\/([^/]+)\/?$/;

export class Chat {
  readonly #standIns = new StandIns((what, response) => this.#live.say(what, response));
  readonly #env = browserEnv(csrfToken, this.#standIns);
  readonly api = new Api(this.#env);
  readonly #tabs = new Tabs();
  readonly #live = new Live(this.#env, siteSocket, {
    onTold: (told) => this.#told(told),
    // What happened before was not told: a conversation that was deleted by leaving may just have been listed.
    onConnected: (again) => (again ? void this.#lookAgain() : this.#refreshSoon()),
    onLost: () => this.#standIns.lost(),
    onCounted: (response, counted) => (counted ? this.#standIns.counted(response) : this.#standIns.over(response)),
    onSignedOut: goToLogin,
  });
  #refreshing: number | null = null;
  /** Whatever is asked for now would be refused. */
  #signedOut = false;
  #deleting: Promise<void> = Promise.resolve();
  readonly list = new ConversationList(this.api);
  readonly search = new Search(this.api);
  readonly removals = new Removals(this.#env.clock, { onDelete: ({ id }) => void this.#delete(id) });
  /** Conversations opened so far; an answer goes on being read while another one is shown. */
  readonly #open = new Map<string, Conversation>();
  models: ModelRow[] = $state.raw([]);
  model: string | null = $state(null);
  /** The message that the log shall show, until it has. */
  target: string | null = $state(location.hash.slice(1) || null);
  notice: string | null = $state(null);
  /** The conversation that can be brought back was the one shown. */
  #leftBehind = false;
  shown: Conversation = $state.raw(this.#blank());
  /** Something came to its end while nobody looked at the page. */
  unseen = $state(false);

  /** `tools` are those of the site. */
  constructor(readonly tools: string[]) {}

  start(): void {
    this.#followAddress();
    window.addEventListener('popstate', () => this.#followAddress());
    window.addEventListener('pagehide', () => this.#leave());
    window.addEventListener('pageshow', (event) => event.persisted && this.#comeBack());
    this.#live.start();
    document.addEventListener('visibilitychange', () => !document.hidden && this.#seen());
    this.#tabs.listen((id) => this.#live.isOpen || this.#changedElsewhere(id));
    this.refreshList();
    void this.api.models().then(
      ({ data }) => (this.models = data),
      () => undefined,
    );
  }

  now_ms(): number {
    return this.#env.clock.now();
  }

  openNew(): void {
    if (location.pathname !== '/') history.pushState(null, '', '/');
    this.#turnTo(this.#blank());
  }

  /** `message` is the one to scroll to. */
  open(id: string, message: string | null = null): void {
    const address = `/c/${id}${message === null ? '' : `#${message}`}`;
    if (location.pathname + location.hash !== address) history.pushState(null, '', address);
    this.target = message;
    if (this.shown.id !== id) this.#show(id);
  }

  /** Gone from the page; its answer goes on being read until it is gone for good. */
  remove(row: ConversationRow): void {
    this.removals.begin(row);
    this.list.doomed = row.id;
    this.#leftBehind = this.shown.id === row.id;
    if (this.#leftBehind) this.openNew();
  }

  undoRemoval(): void {
    const row = this.removals.undo();
    this.list.doomed = null;
    if (row && this.#leftBehind) this.open(row.id);
  }

  async #delete(id: string): Promise<void> {
    this.list.doomed = null;
    const gone = this.list.remove(id);
    this.#open.get(id)?.detach();
    this.#open.delete(id);
    await (this.#deleting = this.attempt(() => gone));
    this.#tabs.tell(null);
  }

  /** As long as nobody said otherwise a model can; the server says so if not. */
  toolsFor(model: string | null): string[] {
    const row = this.models.find(({ id }) => id === model) ?? this.models[0];
    return (row?.calls_tools ?? true) ? this.tools : [];
  }

  chooseModel(id: string): void {
    this.model = id;
    this.shown.model = id;
  }

  /** Before the session is over: what is still to be said is said now, and nothing is asked any more. */
  async signOut(): Promise<void> {
    this.#leave();
    this.#signedOut = true;
    for (const conversation of this.#open.values()) conversation.detach();
    await Promise.race([this.#deleting, new Promise((late) => this.#env.clock.setTimeout(() => late(null), LAST_WORD_MS))]);
  }

  refreshList(): void {
    if (this.#signedOut) return;
    void this.list.refresh().catch(() => undefined); // shown again with the next change
  }

  /** Stops an answer that may be read elsewhere; the list says when it has ended. */
  async stop(responseId: string): Promise<void> {
    if (this.#live.say('stop', responseId)) return;
    const result = await cancelResponse(this.#env, responseId, null);
    if (result.kind === 'failed') this.notice = result.refusal?.message ?? '';
    this.refreshList();
  }

  /** Says so when a small action failed; the page itself goes on. */
  async attempt(action: () => Promise<void>): Promise<void> {
    await action().catch((error: unknown) => this.failed(error));
  }

  failed(error: unknown): void {
    this.notice = error instanceof Error ? error.message : String(error);
  }

  #blank(id: string | null = null): Conversation {
    const hooks = {
      toolsFor: (model: string | null) => this.toolsFor(model),
      onCreated: (made: Conversation) => this.#created(made),
      onChanged: (changed: Conversation, ended: boolean) => this.#changed(changed, ended),
    };
    const conversation = new Conversation(this.#env, this.api, hooks, id);
    conversation.model = this.model;
    return conversation;
  }

  #created(conversation: Conversation): void {
    this.#open.set(conversation.id!, conversation);
    if (this.shown === conversation) history.pushState(null, '', `/c/${conversation.id}`);
    this.refreshList();
  }

  #changed(conversation: Conversation, ended: boolean): void {
    if (ended && document.hidden) this.unseen = true;
    this.refreshList();
    this.#tabs.tell(conversation.id);
  }

  #changedElsewhere(id: string | null): void {
    this.refreshList();
    const conversation = id === null ? undefined : this.#open.get(id);
    if (conversation === this.shown) void conversation?.load();
  }

  /** The socket says where to look. What this page does itself it knows sooner, and looks by itself. */
  #told({ kind, conversation, response }: Told): void {
    const open = conversation === null ? undefined : this.#open.get(conversation);
    if (kind === 'response.ended' && response !== null) this.#standIns.over(response);
    if (kind === 'response.ended' && this.list.answered(conversation ?? '', response ?? '')) this.#follow(open, response);
    else if (response === null || !open?.knows(response)) this.#refreshSoon();
    if (kind === 'response.started') this.#follow(open, response);
    if (kind === 'conversations' && open === this.shown) void open?.load();
  }

  #follow(open: Conversation | undefined, response: string | null): void {
    if (response !== null && open === this.shown) open?.follow(response);
  }

  /** One question for what comes together: a new conversation, its answer, its title. */
  #refreshSoon(): void {
    this.#refreshing ??= this.#env.clock.setTimeout(() => {
      this.#refreshing = null;
      this.refreshList();
    }, GATHER_MS);
  }

  /** After a connection was lost: what changed meanwhile nobody told. */
  async #lookAgain(): Promise<void> {
    const { shown } = this;
    const before = this.list.rows.find((row) => row.id === shown.id);
    await this.list.refresh().catch(() => undefined);
    const now = this.list.rows.find((row) => row.id === shown.id);
    if (now?.updated_at !== before?.updated_at && shown === this.shown) void shown.load();
  }

  #seen(): void {
    this.unseen = false;
    this.refreshList();
  }

  #followAddress(): void {
    const id = PATH.exec(location.pathname)?.[1];
    if (id === undefined) this.#turnTo(this.#blank());
    else if (this.shown.id !== id) this.#show(decodeURIComponent(id));
  }

  #show(id: string): void {
    let conversation = this.#open.get(id);
    if (!conversation) {
      conversation = this.#blank(id);
      this.#open.set(id, conversation);
    }
    this.#turnTo(conversation);
    void conversation.load();
  }

  #turnTo(conversation: Conversation): void {
    this.shown.show(false);
    this.shown = conversation;
    conversation.show(true);
  }

  /** Out of the browser's cache of pages: the socket was closed when this one was left. */
  #comeBack(): void {
    this.#standIns.lost();
    this.#live.start();
  }

  /** Tells the server that this page is going, so that it need not wait long for a reader to come back. */
  #leave(): void {
    if (this.#signedOut) return;
    this.removals.finish();
    this.#live.close();
    for (const conversation of this.#open.values()) {
      for (const id of conversation.runningIds()) {
        navigator.sendBeacon(`/api/responses/${id}/leaving`, new URLSearchParams({ csrfmiddlewaretoken: csrfToken() }));
      }
    }
  }
}
