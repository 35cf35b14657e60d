// Owns a conversation as a text to keep: Markdown to read, JSON to process. Pure.
import type { Turn } from './state/turns.svelte';
import { endMark, isPartial } from './state/answer_words';
import { resultOf, type Step } from './state/steps';
import { words } from './words';

/** The shown path of the conversation. */
export function asMarkdown(title: string, turns: readonly Turn[]): string {
  const whole = turns.filter((turn, index) => turn.role === 'user' || turns[index + 1]?.role !== 'assistant');
  const parts = whole.map((turn) => {
    const answer = turn.run?.answer;
    if (!answer) return `## ${words.you}\n\n${turn.text}`;
    const said = turn.stretches.map(({ steps, text }) => `${steps.map(({ step, among }) => call(step, among.steps)).join('')}${text}`);
    const mark = isPartial(answer) ? `\n\n*${endMark(answer)}*` : '';
    return `## ${words.assistant}\n\n${said.join('').trim()}${mark}`;
  });
  return `# ${title}\n\n${parts.join('\n\n')}\n`;
}

/** A call with what came of it, as code: nothing in it is Markdown. */
function call(step: Step, steps: readonly Step[]): string {
  if (step.kind !== 'call') return '';
  const result = resultOf(steps, step);
  const output = result ? `\n\n${fenced(result.text)}` : '';
  return `\n\n${quoted(`${step.name}: ${step.text}`)}${output}\n\n`;
}

function quoted(text: string): string {
  const marks = '`'.repeat(longestRun(text) + 1);
  return `${marks} ${text.replace(/\s+/g, ' ')} ${marks}`;
}

function fenced(text: string): string {
  const fence = '`'.repeat(Math.max(3, longestRun(text) + 1));
  return `${fence}\n${text}\n${fence}`;
}

function longestRun(text: string): number {
  return Math.max(0, ...(text.match(/`+/g) ?? []).map((run) => run.length));
}

/** All branches, as the tree that they are. */
export function asJson(title: string, root: Turn): string {
  return `${JSON.stringify({ title, messages: root.children.map(message) }, null, 2)}\n`;
}

function message(turn: Turn): object {
  const answer = turn.run?.answer;
  const own = answer
    ? {
        role: 'assistant',
        text: answer.text,
        steps: answer.steps.flatMap((step) => (step.kind === 'message' ? [] : [stepFields(step)])),
        model: answer.model,
        response_id: answer.responseId,
        end_state: answer.end?.state ?? null,
        end_reason: answer.end?.reason ?? null,
        usage: answer.usage,
      }
    : { role: 'user', text: turn.text };
  return { id: turn.id, ...own, answers: turn.children.map(message) };
}

function stepFields({ kind, name, callId, text, error }: Step): object {
  if (kind === 'reasoning') return { kind, text };
  return { kind, ...(kind === 'call' ? { name } : {}), call_id: callId, text, ...(error === null ? {} : { error }) };
}
