"""Measures the pure core: CPU µs per token of decode, hold back and encode, early and late. Knows no server.

Run: make bench-core. It fails when a token late in an answer costs more than an early one, or any too much.
"""

import sys
import time
from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.dialects import ENCODERS
from streaming.protocol.dialects.base import Encoder, Head
from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.events import STARTED, TEXT, Event
from streaming.protocol.markers import FORMATS, Markers
from streaming.protocol.response_stream import ResponseStream

PROMPT = "user: Is the chai ready?\nassistant:"
ANSWER = "The chai is ready, and it costs 5 € (चाय ☕ तैयार है).\n\n- With a biscuit: 7 €\n## Enjoy it!\n" * 400
STOPS = ("\n\nuser:", "<|end|>", "###END", "STOP")
WINDOW_TOKENS = 200
POSITIONS = (100, 8_000)
ROUNDS = 15
#: So often again while a bound does not hold: the best round is the cost, what a busy machine adds is not.
REPEATS = 8
#: A token at the last position may cost so much more than one at the first: nothing may grow with the answer.
GROWTH_MAX = 1.2
#: What no machine should exceed; 3 to 4 µs are usual.
COST_MAX_US = 15.0


def tokenizer() -> Tokenizer:
    """Byte-level BPE with one token per byte and one per common word, so that characters come cut."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [
        "The",
        "Ġchai",
        "Ġis",
        "Ġready",
        "Ġand",
        "Ġit",
        "Ġcosts",
        "Ġ5",
        "Ġ7",
        "ĊĊ",
        "ĠWith",
        "Ġa",
        "Ġbiscuit",
        "ĠEnjoy",
    ]
    vocabulary = {piece: index for index, piece in enumerate([*alphabet, *words])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="!"))
    made.decoder = decoders.ByteLevel()
    return made


def encode(tokens: Tokenizer, text: str) -> list[int]:
    """Ids by greedy longest match: what a model might emit for the text."""
    vocabulary = tokens.get_vocab()
    symbols = "".join(piece for piece, _ in pre_tokenizers.ByteLevel(False, use_regex=False).pre_tokenize_str(text))
    ids, start = [], 0
    while start < len(symbols):
        size = next(n for n in range(12, 0, -1) if symbols[start : start + n] in vocabulary)
        ids.append(vocabulary[symbols[start : start + size]])
        start += size
    return ids


def one_token_at_a_time(stream: ResponseStream, encoder: Encoder, outputs: Sequence[EngineOutput], seq: int) -> int:
    """Feed, number and encode each output as if every one were committed alone."""
    for output in outputs:
        for draft in stream.feed(output):
            seq += 1
            encoder.encode([Event(seq, 1, TEXT, draft.payload, draft.token_ids, draft.token_count)])
    return seq


def holds(costs_us: Sequence[float]) -> bool:
    """Whether a token costs little, late no more than early."""
    return costs_us[-1] <= GROWTH_MAX * costs_us[0] and max(costs_us) <= COST_MAX_US


def measure(dialect: str, stops: tuple[str, ...], markers: Markers | None = None) -> list[float]:
    """The best of several rounds, in CPU µs per token, at each position."""
    tokens = tokenizer()
    outputs = [EngineOutput((token_id,)) for token_id in encode(tokens, ANSWER)]
    best = [float("inf")] * len(POSITIONS)
    for number in range(ROUNDS * REPEATS):
        if number % ROUNDS == 0 and number and holds(best):
            break
        detokenizer = Detokenizer(tokens, encode(tokens, PROMPT))
        stream = ResponseStream(detokenizer=detokenizer, stops=stops, markers=markers)
        encoder = ENCODERS[dialect](Head("resp_01JX0000000000000000000000", "demo", 1_700_000_000))
        encoder.encode([Event(1, 1, STARTED, {})])
        seq, fed = 1, 0
        for index, position in enumerate(POSITIONS):
            seq = one_token_at_a_time(stream, encoder, outputs[fed:position], seq)
            fed = position + WINDOW_TOKENS
            began = time.process_time()
            seq = one_token_at_a_time(stream, encoder, outputs[position:fed], seq)
            best[index] = min(best[index], (time.process_time() - began) / WINDOW_TOKENS * 1e6)
            assert ANSWER.startswith(stream.output_text)
    return best


def main() -> int:
    """Print one line per dialect, set of stop strings and format; 1 when a bound does not hold."""
    is_kept = True
    for dialect in ENCODERS:
        for stops, markers in (((), "none"), (STOPS, "none"), (STOPS, "think+hermes")):
            costs_us = measure(dialect, stops, FORMATS[markers])
            growth = costs_us[-1] / costs_us[0]
            is_kept = is_kept and holds(costs_us)
            at = ", ".join(f"{us:.2f} µs at token {n:,}" for us, n in zip(costs_us, POSITIONS, strict=True))
            print(f"{dialect}, {len(stops)} stop strings, markers {markers}: {at}, {growth:.2f} times", end="")
            print("" if holds(costs_us) else f"  TOO MUCH: at most {COST_MAX_US:g} µs, late {GROWTH_MAX:g} times")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
