// Owns the same client as stream.py, for Node and browsers: it streams, resumes, backs off, and stops on Ctrl-C.
//
//     URL=http://127.0.0.1:8000/v1 KEY=sk-… npx tsx examples/stream.mts MODEL "Name three rivers."

export type Outcome = "finished" | "truncated" | "errored";
/** What a stream that is over amounts to. `parseJson`: structured output or arguments are whole. */
export interface Verdict {
  outcome: Outcome;
  finishReason?: string;
  parseJson: boolean;
  resume: boolean;
}

const SILENCE_MS = 40_000;
const TRIES = 8;
const RETRIED = new Set([408, 429, 502, 503, 504]);
const CUT_SHORT = new Set(["cancelled", "abandoned", "truncated"]);

/** Ms before the next try, with jitter. 503: it comes back soon. 429: each try that comes too early is one more. */
export function waitMs(tries: number, status?: number, retryAfter?: string | null): number {
  if (retryAfter && /^\d+$/.test(retryAfter)) return Number(retryAfter) * 1000 * (1 + Math.random() / 4);
  const [firstMs, growth, mostMs] = status === 429 ? [2000, 3, 60_000] : [500, 2, 15_000];
  return Math.min(mostMs, firstMs * growth ** tries) * (0.5 + Math.random() / 2);
}

/** A clean close proves nothing: only an event that says so ends an answer. */
export function verdict(data: Iterable<string>): Verdict {
  let finishReason: string | undefined;
  for (const text of data) {
    if (text === "[DONE]") break;
    const { error, choices } = JSON.parse(text);
    if (error) {
      const outcome = CUT_SHORT.has(error.end_state) ? "truncated" : "errored";
      return { outcome, parseJson: false, resume: false };
    }
    finishReason = choices?.[0]?.finish_reason ?? finishReason;
  }
  if (finishReason === undefined) return { outcome: "truncated", parseJson: false, resume: true };
  const parseJson = finishReason === "stop" || finishReason === "tool_calls";
  return { outcome: "finished", finishReason, parseJson, resume: false };
}

/** The id and the data of each event that arrived whole; an error when nothing comes for too long. */
async function* events(answer: Response, abort: AbortController): AsyncGenerator<{ id?: string; data: string }> {
  let buffered = "";
  let timer = setTimeout(() => abort.abort(), SILENCE_MS);
  try {
    for await (const bytes of answer.body!.pipeThrough(new TextDecoderStream())) {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), SILENCE_MS);
      const blocks = (buffered + bytes).split("\n\n");
      buffered = blocks.pop()!;
      for (const block of blocks) {
        const lines = block.split("\n");
        const value = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        const data = value("data");
        if (data !== undefined) yield { id: value("id"), data };
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

class Refused extends Error {}

/** One answer over as many connections as it takes. The idempotency key makes the first of them repeatable too. */
export class Answer {
  responseId?: string;
  readonly #key = crypto.randomUUID();
  readonly #data: string[] = [];
  #lastId?: string;

  constructor(
    readonly url: string,
    readonly apiKey: string,
    readonly body: object,
  ) {}

  get verdict(): Verdict {
    return verdict(this.#data);
  }

  /** The pieces of text, none twice and none left out; ends when the answer does. */
  async *text(): AsyncGenerator<string> {
    for (let tries = 0; this.verdict.resume && tries < TRIES; tries++) {
      let pauseMs = waitMs(tries);
      try {
        const abort = new AbortController();
        const answer = await this.#connect(abort);
        if (!answer.ok) {
          if (!RETRIED.has(answer.status)) throw new Refused(await answer.text());
          pauseMs = waitMs(tries, answer.status, answer.headers.get("Retry-After"));
        } else {
          this.responseId = answer.headers.get("X-Response-ID")!;
          for await (const { id, data } of events(answer, abort)) {
            if (data.includes("stream_detached")) break;
            this.#data.push(data);
            this.#lastId = id ?? this.#lastId;
            tries = 0;
            const text = data === "[DONE]" ? "" : (JSON.parse(data).choices?.[0]?.delta?.content ?? "");
            if (text) yield text;
          }
        }
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
      if (this.verdict.resume) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** Stop the answer, whether its id is known yet or not. */
  async stop(): Promise<void> {
    const path = this.responseId ? `/responses/${this.responseId}/cancel` : "/responses/cancel";
    await this.#fetch(path, { method: "POST", headers: this.responseId ? {} : { "Idempotency-Key": this.#key } });
  }

  #connect(abort: AbortController): Promise<Response> {
    if (this.#lastId !== undefined) {
      const headers = { "Last-Event-ID": this.#lastId };
      return this.#fetch(`/responses/${this.responseId}/stream`, { headers, signal: abort.signal });
    }
    const headers = { "Idempotency-Key": this.#key, "X-Disconnect-Policy": "grace=60" };
    const body = JSON.stringify({ ...this.body, stream: true });
    return this.#fetch("/chat/completions", { method: "POST", headers, body, signal: abort.signal });
  }

  #fetch(path: string, options: RequestInit): Promise<Response> {
    const headers = { Authorization: `Bearer ${this.apiKey}`, "Content-Type": "application/json", ...options.headers };
    return fetch(this.url + path, { ...options, headers });
  }
}

async function main(model: string, content: string): Promise<number> {
  const { URL: url = "http://127.0.0.1:8000/v1", KEY: key = "" } = process.env;
  const answer = new Answer(url, key, { model, messages: [{ role: "user", content }] });
  process.once("SIGINT", () => void answer.stop());
  try {
    for await (const piece of answer.text()) process.stdout.write(piece);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    return 2;
  }
  const { outcome, finishReason = "" } = answer.verdict;
  process.stderr.write(`\n${outcome} ${finishReason}`.trimEnd() + "\n");
  return outcome === "finished" ? 0 : 1;
}

if (process.argv[1]?.endsWith("stream.mts")) process.exitCode = await main(process.argv[2], process.argv[3]);
