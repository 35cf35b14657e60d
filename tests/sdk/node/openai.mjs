// Owns what openai-node sees of the site, case by case. It judges nothing: test_openai_node.py does.
import OpenAI from "openai";

import { asked, run } from "./cases.mjs";

const { url, key, questions, weather, person } = asked;
const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
const user = (content) => [{ role: "user", content }];
const tools = [{ type: "function", function: { name: "get_weather", parameters: weather } }];
const chat = (content, more = {}) =>
  client.chat.completions.create({ model: "tests-judged", messages: user(content), ...more });

async function gather(stream) {
  const seen = { text: "", reasons: [], usage: null, done: false };
  try {
    for await (const chunk of stream) {
      seen.id = chunk.id;
      seen.text += chunk.choices[0]?.delta?.content ?? "";
      if (chunk.choices[0]?.finish_reason) seen.reasons.push(chunk.choices[0].finish_reason);
      seen.usage = chunk.usage ?? seen.usage;
    }
    seen.done = true;
  } catch (error) {
    seen.error = { name: error.constructor.name, status: error.status ?? null, body: error.error ?? null };
  }
  return seen;
}

async function refused(work) {
  try {
    await work();
  } catch (error) {
    return { name: error.constructor.name, status: error.status, code: error.code };
  }
  return null;
}

await run({
  stream: async () => gather(await chat(questions.hello, { stream: true, stream_options: { include_usage: true } })),
  real: async () => {
    const body = { model: "smollm2", max_tokens: 16, temperature: 0 };
    const whole = await chat("Tell me about lighthouses", body);
    const streamed = await gather(await chat("Tell me about lighthouses", { ...body, stream: true }));
    return { whole: whole.choices[0].message.content, streamed: streamed.text, tokens: whole.usage.completion_tokens };
  },
  whole: async () => {
    const answer = await chat(questions.hello);
    const { message, finish_reason } = answer.choices[0];
    return { text: message.content, finish_reason, usage: answer.usage };
  },
  tools: async () => {
    const runner = client.chat.completions.stream({ model: "tests-judged", messages: user(questions.calls), tools });
    const { message, finish_reason } = (await runner.finalChatCompletion()).choices[0];
    return { finish_reason, calls: message.tool_calls.map((call) => call.function) };
  },
  structured: async () => {
    const response_format = { type: "json_schema", json_schema: { name: "person", strict: true, schema: person } };
    const answer = await client.chat.completions.parse({
      model: "tests-judged", messages: user(questions.json), response_format,
    });
    return JSON.parse(answer.choices[0].message.content);
  },
  before: () => refused(() => chat(questions.before, { stream: true })),
  after: async () => gather(await chat(questions.after, { stream: true })),
  stop: async () => {
    const stream = await chat(questions.endless, { stream: true });
    let stopped = null;
    const seen = { text: "" };
    try {
      for await (const chunk of stream) {
        seen.text += chunk.choices[0]?.delta?.content ?? "";
        stopped ??= client.responses.cancel(chunk.id);
      }
    } catch (error) {
      seen.error = error.error;
    }
    return { ...seen, status: (await stopped).status };
  },
  disconnect: async () => {
    const stream = await chat(questions.endless, { stream: true });
    for await (const chunk of stream) {
      stream.controller.abort();
      return { id: chunk.id };
    }
  },
  resume: async () => {
    const body = { model: "tests-judged", input: questions.counts, background: true, stream: true };
    const first = await client.responses.create(body);
    let text = "", last, id;
    for await (const event of first) {
      id = event.response?.id ?? id;
      text += event.type === "response.output_text.delta" ? event.delta : "";
      last = event.sequence_number;
      if (text.length > 6) break;
    }
    for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: last })) {
      text += event.type === "response.output_text.delta" ? event.delta : "";
      last = event.type;
    }
    return { text, last };
  },
  responses: async () => {
    const stream = client.responses.stream({ model: "tests-judged", input: questions.hello });
    const final = await stream.finalResponse();
    return { text: final.output_text, status: final.status, usage: final.usage };
  },
});
