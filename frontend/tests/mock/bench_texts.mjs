// Owns the answers that the bench of the page plays: one of everything, one long fence, one long paragraph; in deltas.

const FENCE = '```';
const WORDS =
  'the lamp turns slowly above a harbour where fog bells answer gulls and every keeper writes what the night brought '.split(' ');
const OTHER = ['नमस्ते दुनिया', '漢字とかな', '👩‍👩‍👧‍👦', 'مرحبا بالعالم', 'été', '🏳️‍🌈'];

/** Words without chance: the same text in every run. */
function sentence(seed, count) {
  const words = Array.from({ length: count }, (_, n) => WORDS[(seed * 7 + n * n + 3 * n) % WORDS.length]).filter(Boolean);
  return `${words.join(' ')} ${OTHER[seed % OTHER.length]}.`;
}

function code(lines) {
  const body = Array.from({ length: lines }, (_, n) =>
    n % 9 === 0
      ? `\ndef step_${n}(value: int, name: str = "n${n}") -> int:`
      : `    value += ${n} * len(name)  # ${WORDS[n % 17]} ${n}`,
  );
  return `${FENCE}python\n${body.join('\n')}\n${FENCE}\n\n`;
}

function table(seed, rows) {
  const line = (n) => `| ${WORDS[(seed + n) % 18]} | ${seed * n} | **${WORDS[(seed * n) % 18]}** |\n`;
  return `| one | two | three |\n|:--|--:|:-:|\n${Array.from({ length: rows }, (_, n) => line(n + 1)).join('')}\n`;
}

function section(seed) {
  const items = [1, 2, 3].map((n) => `- ${sentence(seed + n, 9)} \`code_${n}\`\n`).join('');
  const more = seed % 3 === 1 ? code(24) : seed % 3 === 2 ? table(seed, 7) : '';
  const quoted = `> ${sentence(seed + 5, 14)} [a link](https://lighthouses.example/${seed})\n\n`;
  return `## Part ${seed}\n\n${sentence(seed, 40)} *Emphasis*, **strength**.\n\n${items}\n${more}${quoted}${sentence(seed + 9, 45)}\n\n`;
}

const until = (chars, part) => {
  let text = '';
  for (let n = 1; text.length < chars; n += 1) text += part(n);
  return text;
};

const TEXTS = {
  mixed: () => until(23_900, section),
  fence: () => `Here it is.\n\n${code(420)}`,
  paragraph: () => until(26_000, (n) => `${sentence(n, 12)} *also* \`x${n}\` `),
};

/** Deltas of up to five characters, as a model makes them; never half a character. */
export function benchDeltas(name) {
  const deltas = [];
  for (const [piece] of TEXTS[name]().matchAll(/\s*[^\s]{1,5}|\s+/gu)) deltas.push(piece);
  return deltas;
}
