// Owns the answers of the mock server: one that shows everything Markdown can do, and a short one.

const FENCE = '```';

export const LONG = `# How a stream reaches you

A *stream* is sent **token by token**. Here is what happens, with \`inline code\`, a [link](https://example.org/docs) and an
image that is never loaded: ![A diagram](https://images.example.net/flow.png).

1. The server writes the text down first.
2. Then it is shown:
   - in this page
   - in another tab
3. Nothing is lost, even if the network is.

## Some code

${FENCE}python
import asyncio


async def read(stream: asyncio.StreamReader) -> str:
    """Collects a stream until its end."""
    parts = []
    while chunk := await stream.read(4096):
        parts.append(chunk.decode("utf-8"))  # a comment
    return "".join(parts)
${FENCE}

| Drink | Caffeine | Taste |
|:------|---------:|:-----:|
| Tea | 40 mg | mild |
| Coffee | 95 mg | strong |

> Quoted text stands back a little.
> It may have several lines.

### In other scripts

नमस्ते दुनिया, यह एक उत्तर है। 漢字とかな交じりの文。 مرحبا بالعالم 👩‍👩‍👧‍👦

مرحبا بالعالم، هذه فقرة كاملة من اليمين إلى اليسار.

${FENCE}js
const greet = (name) => \`Hello, \${name}!\`;
console.log(greet('world')); // a long line that has to scroll inside of its block and never makes the page itself scroll sideways
${FENCE}

That is all.
`;

export const SHORT = 'A short answer with **bold** words.';
