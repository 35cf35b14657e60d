"""Owns the tiny byte-level tokenizer made in code: one token a byte, two marks. Reads no file."""

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
BYTE_TOKENS = 256

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_characters() -> list[str]:
    """The printable stand-in that byte-level vocabularies use for each of the 256 bytes, by byte.

    Bytes that print as themselves in Latin-1 stand for themselves; the others take the characters
    from U+0100 on, in order. The table is part of the format of byte-level BPE vocabularies.
    """
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (byte for byte in range(BYTE_TOKENS) if byte not in shown)
    table = {byte: chr(byte) for byte in shown} | {byte: chr(0x100 + nth) for nth, byte in enumerate(hidden)}
    return [table[byte] for byte in range(BYTE_TOKENS)]


def byte_tokenizer() -> Tokenizer:
    """Token id b is the byte b; 256 and 257 are the marks of ChatML."""
    vocabulary = {character: byte for byte, character in enumerate(byte_characters())}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens([AddedToken(IM_START, special=True), AddedToken(IM_END, special=True)])
    return tokenizer
