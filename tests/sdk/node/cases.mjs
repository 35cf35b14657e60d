// Owns how the cases of one judge are run: each gets a deadline, one that throws is told apart, all are printed as JSON.
const DEADLINE_MS = 30_000;

async function readAll(stream) {
  let text = "";
  for await (const piece of stream) text += piece;
  return text;
}

export const asked = JSON.parse(await readAll(process.stdin.setEncoding("utf8")));

function withDeadline(work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("too late")), DEADLINE_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** Run one case after the other and print what each returned, or `{threw}`. */
export async function run(cases) {
  const seen = {};
  for (const [name, work] of Object.entries(cases)) {
    try {
      seen[name] = await withDeadline(work());
    } catch (error) {
      seen[name] = { threw: String(error?.stack ?? error) };
    }
  }
  process.stdout.write(JSON.stringify(seen), () => process.exit(0));
}
