"""Owns the promise that our tokenizer gives llama.cpp's ids for any text, with special tokens parsed and not."""

import json
import random
import unicodedata
import urllib.request

import pytest

from deploy.setup import tokenizer

pytestmark = pytest.mark.engine

CORPUS = [
    "",
    " ",
    "Hello world, it's what we'll say: 'S 'LL don't. I'd've.",
    "def f(x: int) -> int:\n    return x ** 2  # why\n\n\n\tif a:\n\t\tpass\r\n",
    "SELECT * FROM t WHERE a<>b && c||d; /* \u2026 */ {}[]()=>::",
    "आपका चाय ☕ तैयार है। १२३ क्षत्रिय",
    "สวัสดีครับ ยินดีที่ได้รู้จัก ๑๒๓",
    "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f ☕️",
    "你好，世界。二〇二五年 こんにちは 안녕하세요",
    "مرحبا بالعالم שלום עולם Здравствуй, мир Ελληνικά e\u0301 ﬁ",
    "1 12 123 1234567890 3.14159 1,000,000 0x1F ½ ² Ⅷ ٣ ① 1a2b3c",
    "   three\n\n  two \t tab   \n \n\t \n  ends in spaces   ",
    "\u00a0nbsp\u3000wide\u2003em\u0085next\u2028line\u200bzero\ufeffbom",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<repo_name> <|im_start|><|im_end|><|endoftext|>x<file_sep>",
    "<|im_sta <|im_start |> <|<|im_end|>|> <|im_end|><|im_end",
    "a\x00b\x01c\x04d\x06\x13\x14\x16\x1de\x7ff the\x04the",
    "x" * 3000,
    "\U0010ffff\U00052d48 the\U000c0000the",
]


@pytest.fixture(scope="module")
def ask(demo_model):
    """llama.cpp's own answer for a text."""
    xllamacpp = pytest.importorskip("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(demo_model)
    params.n_ctx, params.n_parallel, params.verbosity = 512, 1, 0
    server = xllamacpp.Server(params)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def tokenize(text, parse_special):
        body = json.dumps({"content": text, "parse_special": parse_special, "add_special": False}).encode()
        request = urllib.request.Request(
            f"{server.listening_address}/tokenize", body, {"Content-Type": "application/json"}
        )
        with opener.open(request) as answer:
            return json.load(answer)["tokens"]

    return tokenize


@pytest.fixture(scope="module", params=[True, False], ids=["specials parsed", "specials as text"])
def both(request, metadata, ask):
    """Our ids and theirs for a text."""
    ours = tokenizer.build(metadata)
    ours.encode_special_tokens = not request.param
    return lambda text: (ours.encode(text, add_special_tokens=False).ids, ask(text, request.param))


@pytest.mark.parametrize("text", CORPUS)
def test_our_ids_are_llamacpps(both, text):
    ours, theirs = both(text)
    assert ours == theirs


def test_every_assigned_code_point_in_context_gives_llamacpps_ids(both):
    """Planes 0 and 1; code points newer than Python's tables are left out: there the libraries' tables differ too."""
    points = [chr(point) for point in range(0x20000) if unicodedata.category(chr(point)) not in {"Cn", "Cs"}]
    for start in range(0, len(points), 512):
        text = "".join(
            f"a{point}b {point}{point}1{point}'s {point} {point}  x" for point in points[start : start + 512]
        )
        ours, theirs = both(text)
        assert ours == theirs, f"between U+{ord(points[start]):04X} and 511 further"


def test_random_mixtures_give_llamacpps_ids(both):
    rng = random.Random(20250207)
    points = [chr(point) for point in range(0x110000) if unicodedata.category(chr(point)) not in {"Cn", "Cs"}]
    parts = ["<|im_end|>", "<|im_start|>", "'s", " the", "the", " ", "\n", "12", "é", "\x04"]
    for _ in range(200):
        text = "".join(rng.choice([rng.choice(points), rng.choice(parts)]) for _ in range(rng.randint(1, 60)))
        ours, theirs = both(text)
        assert ours == theirs, ascii(text)


def test_decoding_gives_the_text_back(metadata):
    ours = tokenizer.build(metadata)
    for text in CORPUS[:-3]:
        assert ours.decode(ours.encode(text).ids, skip_special_tokens=False) == text


def test_the_configuration_says_how_a_prompt_begins_and_ends(metadata):
    config = tokenizer.config(metadata)
    assert (config["bos_token"], config["eos_token"]) == ("<|im_start|>", "<|im_end|>")
    assert config["add_bos_token"] is False
    assert config["model_max_length"] == 8192
