"""Owns the stand-in for the tokenizer of a model whose vocabulary nobody gives us. It counts; its ids mean nothing."""

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

#: Four characters of ASCII are about one token, and any other character is at most about one.
PIECE = r"[\x00-\x7F]{1,4}|[^\x00-\x7F]"
#: Hosted models mark each turn with a few tokens of their own.
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n\n{% endfor %}"


def estimating_tokenizer() -> Tokenizer:
    """Every piece is the token 0."""
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Split(Regex(PIECE), "isolated")
    return tokenizer
