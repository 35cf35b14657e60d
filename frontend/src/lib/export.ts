// Owns a conversation as a text to keep: Markdown to read, JSON to process. Pure.
import type { Turn } from './state/turns.svelte';
import { endMark, isPartial } from './state/answer_words';
import { words } from './words';

/** The shown path of the conversation. */
export function asMarkdown(title: string, turns: readonly Turn[]): string {
  const whole = turns.filter((turn, index) => turn.role === 'user' || turns[index + 1]?.role !== 'assistant');
  const parts = whole.map((turn) => {
    const answer = turn.run?.answer;
    if (!answer) return `## ${words.you}\n\n${turn.text}`;
    const calls = answer.steps.flatMap((step) => (step.kind === 'call' ? [`\n\n\`${step.name}\`: \`${step.text}\``] : []));
    const mark = isPartial(answer) ? `\n\n*${endMark(answer)}*` : '';
    return `## ${words.assistant}\n\n${turn.wholeText}${calls.join('')}${mark}`;
  });
  return `# ${title}\n\n${parts.join('\n\n')}\n`;
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
        steps: answer.steps.flatMap(({ kind, name, text }) => (kind === 'message' ? [] : [{ kind, name, text }])),
        model: answer.model,
        response_id: answer.responseId,
        end_state: answer.end?.state ?? null,
        end_reason: answer.end?.reason ?? null,
        usage: answer.usage,
      }
    : { role: 'user', text: turn.text };
  return { id: turn.id, ...own, answers: turn.children.map(message) };
}
