"""Owns small tokenizers of every kind that the core must decode, and the texts they are tried on."""

from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = "<|end|>"

CORPORA = {
    "Hindi": "आपका चाय ☕ तैयार है",
    "Tamil": "உங்கள் தேநீர் தயாராக உள்ளது",
    "Thai": "ชาของคุณพร้อมแล้ว กรุณารับ",
    "Arabic with marks": "الشَّايُ جَاهِزٌ لَكَ الآنَ",
    "Chinese": "你的茶已经准备好了。",
    "Japanese": "お茶の用意ができました。",
    "Korean": "차가 준비되었습니다.",
    "emoji with joiners": "👩‍👩‍👧‍👦 👩🏽‍💻 😀",
    "flags": "🇮🇳 🇯🇵 🏴‍☠️",
}

ENGLISH = "The chai is ready and the cup is warm. A second cup of chai is ready too.\n"


def byte_symbols() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    symbols = {byte: chr(byte) for byte in kept}
    for byte in range(256):
        symbols.setdefault(byte, chr(256 + len(symbols) - len(kept)))
    return [symbols[byte] for byte in range(256)]


_SYMBOLS = byte_symbols()


def from_pieces(pieces: Sequence[bytes]) -> Tokenizer:
    """A byte-level vocabulary in which id N is exactly the Nth piece; the last id is a special token."""
    vocabulary = {"".join(_SYMBOLS[byte] for byte in piece): index for index, piece in enumerate(pieces)}
    assert len(vocabulary) == len(pieces)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(SPECIAL, special=True)])
    return tokenizer


def all_bytes(*words: str) -> Tokenizer:
    """One token per byte, its id the byte, and the words after them."""
    return from_pieces([bytes([byte]) for byte in range(256)] + [word.encode() for word in words])


def cut(text: str, size: int) -> tuple[Tokenizer, list[int]]:
    """A vocabulary made of the text's bytes cut every ``size``, and the text's ids in it."""
    raw = text.encode()
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    known = list(dict.fromkeys(pieces))
    return from_pieces(known), [known.index(piece) for piece in pieces]


def trained_byte_level() -> Tokenizer:
    """Byte-level BPE with merges, learnt from the corpora: its tokens cut characters where merges ended."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    _train(tokenizer, trainers.BpeTrainer, [SPECIAL], pre_tokenizers.ByteLevel.alphabet(), 330)
    return tokenizer


def sentencepiece_bpe() -> Tokenizer:
    """As Llama 2 has it: BPE over ``▁``, bytes as ``<0x..>``, a decoder that drops the first space."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    _train(tokenizer, trainers.BpeTrainer, ["<unk>", *fallback_bytes()], [], 360, texts=[ENGLISH] * 3)
    return _byte_tokens_shown(tokenizer)


def unigram() -> Tokenizer:
    """Unigram with Metaspace and byte fallback, as T5's descendants have it."""
    words = ["▁The", "▁chai", "▁is", "▁ready", "▁and", "▁the", "▁cup", "▁", "a", "e", "t", ".", "c"]
    scored = [("<unk>", 0.0), *((byte, -20.0) for byte in fallback_bytes()), *((word, -3.0) for word in words)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    tokenizer.add_special_tokens([SPECIAL])
    return tokenizer


def wordpiece(texts: Sequence[str]) -> Tokenizer:
    """Words and their continuations behind ``##``, as BERT has them: whole characters, no bytes."""
    characters = sorted(set("".join(texts)) - set(" \t\n"))
    pieces = ["[UNK]", *characters, *(f"##{character}" for character in characters), "chai", "the", "##ready"]
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([SPECIAL])
    return tokenizer


def metaspace_only() -> Tokenizer:
    """Words and spaces, no bytes."""
    words = ["<unk>", "▁The", "▁chai", "▁is", "▁ready", "▁", "s", "."]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([SPECIAL])
    return tokenizer


def fallback_bytes() -> list[str]:
    """The names of byte tokens in a vocabulary with byte fallback."""
    return [f"<0x{byte:02X}>" for byte in range(256)]


def _train(
    tokenizer: Tokenizer,
    trainer: type,
    specials: list[str],
    alphabet: Iterable[str],
    size: int,
    texts: list[str] | None = None,
) -> None:
    made = trainer(vocab_size=size, special_tokens=specials, initial_alphabet=sorted(alphabet), show_progress=False)
    tokenizer.train_from_iterator(texts or [*CORPORA.values(), ENGLISH] * 3, made)


def _byte_tokens_shown(tokenizer: Tokenizer) -> Tokenizer:
    """The same model without the training's idea that byte tokens are special, with a special token of its own."""
    plain = Tokenizer(tokenizer.model)
    plain.pre_tokenizer, plain.decoder = tokenizer.pre_tokenizer, tokenizer.decoder
    plain.add_special_tokens([SPECIAL])
    return plain
