// Owns what openai-node sees of files and batches, case by case. It judges nothing: test_batches.py does.
import OpenAI, { toFile } from "openai";

import { asked, run } from "./cases.mjs";

const { url, key, questions } = asked;
const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
const endpoint = "/v1/chat/completions";
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const line = (custom_id, content) =>
  JSON.stringify({ custom_id, method: "POST", url: endpoint, body: { model: "scripted", messages: [{ role: "user", content }] } });

async function start(...lines) {
  const file = await client.files.create({ file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"), purpose: "batch" });
  const batch = await client.batches.create({ input_file_id: file.id, endpoint, completion_window: "24h" });
  return { file, batch };
}

async function until(batch, ...statuses) {
  while (!statuses.includes(batch.status)) {
    await pause(100);
    batch = await client.batches.retrieve(batch.id);
  }
  return batch;
}

async function ids(pages) {
  const found = [];
  for await (const row of pages) found.push(row.id);
  return found;
}

await run({
  async answered() {
    const { file, batch } = await start(line("a", questions.hello), line("b", questions.hello));
    const done = await until(batch, "completed");
    const text = await (await client.files.content(done.output_file_id)).text();
    const answers = text.trim().split("\n").map((one) => JSON.parse(one));
    return {
      counts: done.request_counts,
      said: answers.map((one) => [one.custom_id, one.response.body.choices[0].message.content]),
      listed: (await ids(client.batches.list({ limit: 1 }))).includes(batch.id),
      files: (await ids(client.files.list({ limit: 1 }))).includes(file.id),
      kept: (await client.files.retrieve(file.id)).filename,
      deleted: (await client.files.delete(done.output_file_id)).deleted,
    };
  },
  async cancelled() {
    const { batch } = await start(line("a", questions.endless));
    await until(batch, "in_progress");
    const cancelling = await client.batches.cancel(batch.id);
    return { first: cancelling.status, last: (await until(cancelling, "cancelled")).status };
  },
});
