"""Owns that the demo model's own vocabulary streams every corpus whole. What holds for any vocabulary is elsewhere."""

import functools

import pytest
from tokenizers import Tokenizer

from deploy.setup.places import demo_model
from tests.protocol.test_detokenizer import CODE, streamed, windowed
from tests.protocol.vocabularies import CORPORA, ENGLISH

FILE = demo_model().tokenizer
pytestmark = pytest.mark.skipif(not FILE.exists(), reason="the demo model is not here yet: make test fetches it")
PROMPT = "<|im_start|>user\nIs the chai ready?<|im_end|>\n<|im_start|>assistant\n"


@functools.cache
def vocabulary():
    return Tokenizer.from_file(str(FILE))


def ids_of(text):
    return vocabulary().encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_script_comes_out_whole_where_a_naive_decoder_breaks(corpus):
    text = CORPORA[corpus]
    deltas = streamed(vocabulary(), ids_of(PROMPT), ids_of(text))
    assert "".join(deltas) == text == windowed(vocabulary(), ids_of(text))
    assert not any("\ufffd" in delta for delta in deltas)
    assert "\ufffd" in "".join(vocabulary().decode([token_id]) for token_id in ids_of(text))


@pytest.mark.parametrize("text", [ENGLISH, CODE])
def test_ascii_is_shown_with_each_token(text):
    deltas = streamed(vocabulary(), ids_of(PROMPT), ids_of(text))
    assert "".join(deltas) == text
    assert all(deltas[:-1])
