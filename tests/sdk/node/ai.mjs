// Owns what the Vercel AI SDK sees of the site, case by case. It judges nothing: test_vercel_ai.py does.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

import { asked, run } from "./cases.mjs";

const { url, key, questions, weather, person } = asked;
const provider = createOpenAICompatible({
  name: "site", baseURL: url, apiKey: key, includeUsage: true, supportsStructuredOutputs: true,
});
const model = provider("tests-judged");
const quiet = { maxRetries: 0, onError: () => {} };

async function gather(result) {
  const seen = { text: "", parts: [] };
  for await (const part of result.fullStream) {
    if (seen.parts.at(-1) !== part.type) seen.parts.push(part.type);
    if (part.type === "text-delta") seen.text += part.text;
    if (part.type === "error") seen.error = part.error?.message ?? String(part.error);
    if (part.type === "finish") Object.assign(seen, { finish: part.finishReason, usage: part.totalUsage });
  }
  return seen;
}

await run({
  stream: () => gather(streamText({ model, prompt: questions.hello, ...quiet })),
  real: async () => {
    const real = provider("smollm2");
    const { text, usage } = await generateText({
      model: real, prompt: "Tell me about lighthouses", maxOutputTokens: 16, temperature: 0,
    });
    return { text, tokens: usage.outputTokens };
  },
  whole: async () => {
    const { text, finishReason, usage } = await generateText({ model, prompt: questions.hello, maxRetries: 0 });
    return { text, finish: finishReason, usage };
  },
  tools: async () => {
    const ran = [];
    const execute = async ({ city }) => ran.push(city) && "18 degrees";
    const tools = { get_weather: tool({ inputSchema: jsonSchema(weather), execute }) };
    const result = streamText({ model, prompt: questions.calls, tools, stopWhen: stepCountIs(2), ...quiet });
    const seen = await gather(result);
    // The script is asked again with the tool's result, and calls again: two steps, both taken.
    return { ...seen, ran, steps: (await result.steps).length };
  },
  structured: async () => {
    const { object } = await generateObject({ model, prompt: questions.json, schema: jsonSchema(person), maxRetries: 0 });
    return object;
  },
  before: async () => {
    try {
      await generateText({ model, prompt: questions.before, maxRetries: 0 });
    } catch (error) {
      return { name: error.name, status: error.statusCode, retryable: error.isRetryable };
    }
    return null;
  },
  after: () => gather(streamText({ model, prompt: questions.after, ...quiet })),
  disconnect: async () => {
    const abort = new AbortController();
    const result = streamText({ model, prompt: questions.endless, abortSignal: abort.signal, ...quiet });
    for await (const part of result.fullStream) {
      if (part.type === "text-delta") abort.abort();
      if (part.type === "abort") return { aborted: true, id: (await result.response.catch(() => null))?.id ?? null };
    }
    return { aborted: false };
  },
});
