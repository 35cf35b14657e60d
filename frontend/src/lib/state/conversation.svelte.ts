// Owns one open conversation: loading it, sending, asking again, stopping. The list of all is not here.
import { ApiError, type Api, type Mark, type StoredConversation } from '../api';
import { goToLogin } from '../boot';
import type { Place } from '../scroll';
import type { Env } from '../stream/env';
import { NEW_ANSWER, type Answer } from './answer';
import { dropDraft, keepDraft, readDraft } from './drafts';
import { asBody, keepOptions, NO_OPTIONS, readOptions, type Options } from './options';
import { Run } from './run.svelte';
import { newRoot, treeOf, Turn } from './turns.svelte';

export interface ConversationHooks {
  /** The tools of the site that a model may be given. */
  toolsFor(model: string | null): string[];
  onCreated(conversation: Conversation): void;
  onChanged(conversation: Conversation, ended: boolean): void;
}

export class Conversation {
  id: string | null = $state(null);
  root = $state.raw(newRoot());
  /** Where in the log somebody was when another one was opened. */
  place: Place | null = null;
  loading: 'no' | 'yes' | 'failed' | 'missing' = $state('no');
  model: string | null = $state(null);
  options: Options = $state.raw(readOptions(null));
  /** What the model is told before the first message. Kept by the server, so that every device asks alike. */
  systemPrompt = $state('');
  /** A response that was not made here and is not shown yet. */
  #unseen: string | null = null;
  #shown = false;
  /** How often something was asked here. */
  #asks = 0;
  readonly turns = $derived(this.root.path());
  /** The answer that the status line speaks of: the newest one shown. */
  readonly current = $derived(this.turns.findLast((turn) => turn.run !== null) ?? null);
  readonly running = $derived(this.current?.run?.running ?? false);
  /** Whether the page knows what a new message follows: before, it would go beside the first one. */
  readonly isKnown = $derived(this.loading === 'no' || this.turns.length > 0);

  constructor(
    private readonly env: Env,
    private readonly api: Api,
    private readonly hooks: ConversationHooks,
    id: string | null,
  ) {
    this.id = id;
    this.options = readOptions(id);
  }

  /** Rejects where the server could not keep what the model is told. */
  async setOptions(options: Options, systemPrompt: string): Promise<void> {
    this.options = options;
    keepOptions(this.id, options);
    if (this.id !== null && systemPrompt !== this.systemPrompt) await this.api.tellConversation(this.id, systemPrompt);
    this.systemPrompt = systemPrompt;
  }

  async load(): Promise<void> {
    if (this.id === null || this.loading === 'yes' || this.#runs().length > 0 || this.#endsUnsent) return;
    this.loading = 'yes';
    const asksBefore = this.#asks;
    try {
      const stored = await this.api.conversation(this.id);
      this.loading = 'no';
      // Written to meanwhile: the reply may be older than what was sent, also where that has ended by now.
      if (asksBefore !== this.#asks) return await this.load();
      this.#show(stored);
      this.#catchUp();
    } catch (error) {
      const missing = error instanceof ApiError && error.refusal.status === 404;
      this.loading = missing ? 'missing' : 'failed';
    }
  }

  /** An answer began, or ended, somewhere: shown at once if it is not ours, or after what is being read here. */
  follow(responseId: string): void {
    if (this.knows(responseId)) return;
    this.#unseen = responseId;
    if (this.loading !== 'yes' && this.#runs().length === 0) this.#catchUp();
  }

  /** Whether the response is shown here. */
  knows(responseId: string): boolean {
    const shown = this.root.all().map((turn) => turn.run?.latest);
    return shown.some((answer) => answer?.responseId === responseId);
  }

  /** The newest message or answer was not taken: only this page has it, with why, and what can be done. */
  get #endsUnsent(): boolean {
    return this.turns.at(-1)?.id === null;
  }

  #catchUp(): void {
    if (this.#endsUnsent) return;
    const unseen = this.#unseen;
    this.#unseen = null;
    if (unseen !== null && !this.knows(unseen)) void this.load();
  }

  async send(text: string, from: Turn | null = null): Promise<void> {
    const parent = from ?? this.turns.at(-1) ?? this.root;
    const user = parent.add(new Turn(parent, 'user', text, null));
    await this.#answer(user, { text, ...below(parent) });
  }

  /** A new answer in place of this one; the old one stays reachable as a branch, unless it never was stored. */
  async again(turn: Turn): Promise<void> {
    if (turn.id === null) turn.parent?.remove(turn);
    if (turn.id === null && turn.parent?.role === 'assistant') return this.goOn(turn.parent);
    const user = turn.question;
    if (!user || user.role !== 'user') return;
    if (user.id !== null) await this.#answer(user, { regenerate: user.id });
    else await this.#answer(user, { text: user.text, ...below(user.parent!) });
  }

  /** The rest of an answer that was cut: what there is of it stays as it is. */
  async goOn(turn: Turn): Promise<void> {
    if (turn.id !== null) await this.#answer(turn, { continues: turn.id });
  }

  /** Takes a message that was never stored out again, so that it can be changed. */
  takeBack(turn: Turn): string {
    const user = turn.parent;
    if (!user?.parent) return '';
    user.parent.remove(user);
    return user.text;
  }

  /** Shown at once; taken back where the server did not keep it, and then rejects. The same mark again takes it away. */
  async mark(turn: Turn, wanted: Mark): Promise<void> {
    const before = turn.mark;
    turn.mark = before === wanted ? null : wanted;
    await this.api.mark(turn.run?.latest.responseId ?? '', turn.mark).catch((error: unknown) => {
      turn.mark = before;
      throw error;
    });
  }

  stop(): void {
    void this.current?.run?.stop();
  }

  /** Whether it is the one on the page. */
  show(shown: boolean): void {
    this.#shown = shown;
    for (const run of this.#runs()) run.show(shown);
  }

  /** The responses that somebody is still reading here. */
  runningIds(): string[] {
    return this.#runs().flatMap((run) => run.latest.responseId ?? []);
  }

  detach(): void {
    for (const run of this.#runs()) run.detach();
  }

  #runs(): Run[] {
    return this.root.all().flatMap((turn) => (turn.run && !turn.run.latest.closed ? [turn.run] : []));
  }

  async #answer(user: Turn, body: { text?: string; parent?: string | null; regenerate?: string; continues?: string }): Promise<void> {
    this.#asks += 1;
    const options = asBody(this.options, body.continues === undefined, this.hooks.toolsFor(this.model));
    const run = new Run(this.env, { ...NEW_ANSWER, json: 'response_format' in options, runsTools: 'run_tools' in options });
    run.show(this.#shown);
    const turn = user.add(new Turn(user, 'assistant', '', run));
    turn.askedHere = true;
    const draftOf = this.id;
    keepDraft(draftOf, body.text ?? '');
    if (this.id === null && !(await this.#create(run))) return;
    const target = {
      kind: 'post' as const,
      url: `/api/conversations/${this.id}/messages`,
      body: { ...body, ...options, model: this.model },
      // Not randomUUID: over plain HTTP from another machine there is none.
      key: crypto.getRandomValues(new Uint32Array(4)).join('-'),
    };
    run.start(target, {
      ...this.#hooks(),
      onKnown: (answer) => {
        if (body.text !== undefined) dropDraft(draftOf, body.text);
        this.#learnIds(user, turn, answer);
      },
      onClosed: (answer) => {
        this.#closed();
        if (answer.accepted && answer.messageId === null) void this.#learnFromStore(answer, body.text ?? '');
      },
      onLogin: () => {
        if (!run.latest.accepted && body.text !== undefined) this.#keepUnsent(body.text);
        goToLogin();
      },
    });
  }

  /** A message that was not taken goes back into the box, before what has been typed since. */
  #keepUnsent(text: string): void {
    const typed = readDraft(this.id);
    keepDraft(this.id, typed === '' || typed === text ? text : `${text}\n\n${typed}`);
  }

  async #create(run: Run): Promise<boolean> {
    try {
      const { id } = await this.api.createConversation(this.systemPrompt);
      this.id = id;
      keepOptions(id, this.options);
      keepOptions(null, NO_OPTIONS);
      this.hooks.onCreated(this);
      return true;
    } catch (error) {
      run.refuse(error instanceof ApiError ? error.refusal : null);
      return false;
    }
  }

  #learnIds(user: Turn, turn: Turn, answer: Answer): void {
    user.id ??= answer.userMessageId;
    turn.id ??= answer.messageId;
    this.hooks.onChanged(this, false);
  }

  /** An answer ended before a stream could say under which ids: it was stored, or its stop overtook the message. */
  async #learnFromStore(answer: Answer, sent: string): Promise<void> {
    const asksBefore = this.#asks;
    const stored = await this.api.conversation(this.id!).catch(() => null);
    if (!stored || asksBefore !== this.#asks) return;
    if (stored.messages.some(({ response }) => response?.id === answer.responseId)) this.#show(stored);
    else keepDraft(this.id, sent); // only this page has the message
  }

  #show(stored: StoredConversation): void {
    this.model ??= stored.model || null; // by which the server answers where nothing is chosen
    this.systemPrompt = stored.system_prompt;
    this.root = treeOf(stored.messages, this.env);
    for (const turn of this.root.all()) {
      if (turn.run && !turn.run.answer.closed) this.#follow(turn.run, stored, turn.id);
    }
  }

  #follow(run: Run, stored: StoredConversation, messageId: string | null): void {
    const response = stored.messages.find((message) => message.id === messageId)?.response;
    if (!response) return;
    const target = { kind: 'follow' as const, responseId: response.id, lastEventId: response.last_event_id };
    run.show(this.#shown);
    run.start(target, { ...this.#hooks(), onKnown: () => undefined, onLogin: goToLogin });
  }

  #closed(): void {
    this.hooks.onChanged(this, true);
    this.#catchUp();
  }

  #hooks() {
    return {
      onClosed: () => this.#closed(),
      onGone: () => {
        this.detach();
        this.root = newRoot();
        void this.load();
      },
    };
  }
}

/** Where a message goes: null is the root. Nothing is said of a turn whose id is not known: it may be stored or not. */
function below(parent: Turn): { parent?: string | null } {
  return parent.role === 'root' || parent.id !== null ? { parent: parent.id } : {};
}
