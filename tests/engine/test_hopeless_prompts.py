"""A prompt that cannot fit is refused before it is cut into tokens, and none is refused that would have fitted."""

import json
import random

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from streaming.engine.guarded_vocabulary import GuardedVocabulary
from streaming.engine.prompt import HopelesslyLong, render_prompt
from streaming.engine.token_bound import NO_BOUND, token_bound
from streaming.engine.tokenizer import TokenizerBundle
from streaming.models import Engine
from streaming.ownership import prompting
from streaming.ownership.ask import Refused
from tests.engine.conftest import byte_level
from tests.engine.test_long_prompts import ask_of

PIECES = [
    "word ",
    "ß☕",
    "चाय",
    "e\u0301",
    "<|im_end|>",
    "     ",
    "\n\n",
    "0123",
    "ﬁ",
    "\ud55c\uae00",
    "aaaaaaaaaaaa",
    "x",
]


def texts(seed):
    pick = random.Random(seed)
    return ["".join(pick.choices(PIECES, k=pick.randint(0, 60))) for _ in range(40)]


def fallback_vocabulary():
    """As Llama's: spaces written as ▁, unknown characters as their bytes."""
    words = ["▁", "▁word", "word", "w", "o", "r", "d", "a", "aa", "aaaa", "x", *"0123"]
    vocabulary = {"<unk>": 0, **{f"<0x{byte:02X}>": byte + 1 for byte in range(256)}}
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    merges = [("a", "a"), ("aa", "aa")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.ByteFallback()
    return tokenizer


def composing():
    tokenizer = byte_level(["word"])
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


@pytest.mark.parametrize("make", [byte_level, composing, fallback_vocabulary])
def test_no_text_has_fewer_tokens_than_the_bound(make):
    vocabulary = GuardedVocabulary(make().to_str())
    said = [(vocabulary.least_tokens(text), len(vocabulary.encode(text))) for text in texts(1)]
    assert all(least <= real for least, real in said)
    assert any(least for least, _ in said)


def test_nor_of_the_demo_model(demo_tokenizer):
    bundle = TokenizerBundle.load(demo_tokenizer)
    for text in [*texts(2), " " * 500, "-" * 500, "=" * 500]:
        messages = [{"role": "user", "content": text}]
        real = len(render_prompt(bundle, messages))
        assert render_prompt(bundle, messages, most_tokens=real), "what fits is never refused"


def removing():
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return tokenizer


def stripping():
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Strip()
    return tokenizer


def without_bytes():
    return Tokenizer(models.BPE({"<unk>": 0, "a": 1}, [], unk_token="<unk>", fuse_unk=True))


@pytest.mark.parametrize("make", [removing, stripping, without_bytes, lambda: Tokenizer(models.Unigram())])
def test_where_text_may_be_swallowed_nothing_is_said(make):
    assert token_bound(json.loads(make().to_str())) == NO_BOUND


@pytest.fixture
def demo_row(demo_tokenizer):
    return Engine(name="d", kind="llamacpp", model="m", tokenizer=str(demo_tokenizer), context_tokens=2048)


async def test_two_megabytes_for_a_small_context_are_refused_without_cutting_them(demo_row, monkeypatch):
    cut = []
    real = GuardedVocabulary.encode
    monkeypatch.setattr(GuardedVocabulary, "encode", lambda self, text: cut.append(len(text)) or real(self, text))
    ask = ask_of([{"role": "user", "content": "word " * 400_000}])
    with pytest.raises(Refused) as refused:
        await prompting.fit(ask, demo_row, 100)
    assert (refused.value.status, refused.value.code) == (400, "context_length_exceeded")
    assert "2048 tokens (got at least 24" in refused.value.message
    assert cut == []
    assert len(await prompting.tokenized(ask, demo_row)) > 400_000, "who asks how many there are is told"


async def test_a_conversation_drops_its_hopeless_turns_without_cutting_them(demo_row, monkeypatch):
    cut = []
    real = GuardedVocabulary.encode
    monkeypatch.setattr(GuardedVocabulary, "encode", lambda self, text: cut.append(len(text)) or real(self, text))
    turns = [("user", "word " * 100_000), ("assistant", "yes"), ("user", "last")]
    ask = ask_of([{"role": role, "content": content} for role, content in turns])
    object.__setattr__(ask, "conversation_id", "conv_1")
    prompt = await prompting.fit(ask, demo_row, 100)
    assert [message["content"] for message in prompt.messages] == ["last"]
    assert max(cut) < 1000


def test_a_hidden_control_token_does_not_count_as_more_than_it_is():
    bundle = TokenizerBundle.bytes_only()
    messages = [{"role": "user", "content": "<|im_end|>" * 10}]
    ids = render_prompt(bundle, messages)
    assert render_prompt(bundle, messages, most_tokens=len(ids)) == ids
    with pytest.raises(HopelesslyLong):
        render_prompt(bundle, messages, most_tokens=5)
