"""Owns the laws of the detokenizer: equal to decoding the whole, whole characters only, bounded work."""

import functools

import pytest
from hypothesis import given
from tokenizers import AddedToken

from streaming.protocol.detokenizer import MAX_PENDING_TOKENS, REPLACEMENT, Detokenizer
from tests.protocol import vocabularies
from tests.protocol.tape import inputs
from tests.protocol.vocabularies import CORPORA, ENGLISH, SPECIAL

KINDS = {
    "byte-level with merges": functools.cache(vocabularies.trained_byte_level),
    "SentencePiece BPE": functools.cache(vocabularies.sentencepiece_bpe),
    "Unigram": functools.cache(vocabularies.unigram),
}
#: Pieces that end one character and begin another, beside whole words and every byte.
CROSSING = [b"\x82\xac\xe2\x82", b"\xac\xf0", b"\x9f\x98\x80\xf0\x9f", b"a\xe2", b"\x98\x80\xf0", b"\x93\xe0\xb8"]


@functools.cache
def with_bytes():
    words = [word.encode() for word in (" the", "chai", " ☕", "\ufffd")]
    return vocabularies.from_pieces([bytes([byte]) for byte in range(256)] + words + CROSSING)


def streamed(tokenizer, prompt_ids, ids):
    """What the detokenizer shows for these ids, one by one, and at the end."""
    detokenizer = Detokenizer(tokenizer, prompt_ids)
    deltas = [detokenizer.push(token_id) for token_id in ids]
    return [*deltas, detokenizer.flush()]


def test_tokens_that_cut_characters_show_whole_characters_only():
    pieces = [b"Hi ", b"Caf", b"\xc3", b"\xa9", b" costs", b" 5", b"\xe2\x82", b"\xac", b".\n"]
    deltas = streamed(vocabularies.from_pieces(pieces), [0], range(1, len(pieces)))
    assert deltas == ["Caf", "", "é", " costs", " 5", "", "€", ".\n", ""]


def test_four_byte_tokens_of_an_emoji_show_nothing_until_it_is_whole():
    tokenizer = vocabularies.all_bytes()
    assert streamed(tokenizer, b"a", "😀ď".encode()) == ["", "", "", "😀", "", "ď", ""]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("corpus", CORPORA)
def test_every_script_cut_every_few_bytes_comes_out_whole_where_a_naive_decoder_breaks(corpus, size):
    text = CORPORA[corpus]
    tokenizer, ids = vocabularies.cut(text, size)
    deltas = streamed(tokenizer, [], ids)
    assert "".join(deltas) == text
    assert not any(REPLACEMENT in delta for delta in deltas)
    aligned = all(len(character.encode()) == size for character in text)
    naive = "".join(tokenizer.decode([token_id]) for token_id in ids)
    assert aligned or REPLACEMENT in naive


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corpus", [*CORPORA, "English"])
def test_every_kind_of_vocabulary_gives_every_corpus_back(kind, corpus):
    tokenizer = KINDS[kind]()
    text = CORPORA.get(corpus, ENGLISH.strip())
    prompt = tokenizer.encode("The cup is").ids
    ids = tokenizer.encode(" " + text if kind.startswith("byte") else text).ids
    expected = tokenizer.decode(prompt + ids)[len(tokenizer.decode(prompt)) :]
    assert expected.strip() == text
    assert "".join(streamed(tokenizer, prompt, ids)) == expected


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("kind", ["SentencePiece BPE", "Unigram"])
def test_byte_fallback_breaks_a_naive_decoder_in_every_script(kind, corpus):
    tokenizer = KINDS[kind]()
    ids = tokenizer.encode(CORPORA[corpus]).ids
    assert "".join(tokenizer.decode([token_id]) for token_id in ids) != tokenizer.decode(ids)


@pytest.mark.parametrize("tokenizer", [vocabularies.metaspace_only(), vocabularies.unigram()], ids=["words", "unigram"])
def test_sentencepiece_style_vocabularies_keep_their_spaces(tokenizer):
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary[word] for word in ("▁The", "▁chai", "▁is", "▁ready")]
    assert streamed(tokenizer, [], ids) == ["The", " chai", " is", " ready", ""]
    assert streamed(tokenizer, [vocabulary["▁"], ids[0]], ids) == [" The", " chai", " is", " ready", ""]


def test_a_prompt_that_ends_in_special_tokens_is_looked_at_further_back():
    tokenizer = vocabularies.metaspace_only()
    vocabulary = tokenizer.get_vocab()
    specials = [vocabulary[SPECIAL]] * 20
    ids = [vocabulary["▁The"], vocabulary["▁chai"]]
    assert streamed(tokenizer, [vocabulary["▁is"], *specials], ids) == [" The", " chai", ""]
    assert streamed(tokenizer, specials, ids) == ["The", " chai", ""]


def test_a_prompt_that_ends_inside_a_character_is_not_shown_again():
    tokenizer = vocabularies.all_bytes(" the")
    assert "".join(streamed(tokenizer, list("Tea ☕".encode()[:-1]), [256, *b" cup"])) == " the cup"
    assert "".join(streamed(tokenizer, [0xFF] * 100, b"cup")) == "cup"


def test_special_tokens_are_skipped_or_shown_as_asked():
    tokenizer = vocabularies.metaspace_only()
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary["▁The"], vocabulary[SPECIAL], vocabulary["▁chai"]]
    assert "".join(streamed(tokenizer, [], ids)) == "The chai"
    shown = Detokenizer(tokenizer, [], skip_special_tokens=False)
    assert shown.step(ids) + shown.flush() == f"The{SPECIAL} chai"


def test_added_tokens_that_are_not_special_are_text_and_stay():
    tokenizer = vocabularies.metaspace_only()
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False)])
    ids = [tokenizer.token_to_id(piece) for piece in ("▁The", "<tool_call>", SPECIAL, "▁chai")]
    assert "".join(streamed(tokenizer, [], ids)) == tokenizer.decode(ids) == "The<tool_call> chai"


def test_a_flood_of_special_and_unknown_ids_waits_for_nothing_and_loses_no_space():
    tokenizer = vocabularies.metaspace_only()
    vocabulary = tokenizer.get_vocab()
    detokenizer = Detokenizer(tokenizer, [])
    assert detokenizer.push(vocabulary["▁The"]) == "The"
    for token_id in [vocabulary[SPECIAL], 999_999] * 100:
        assert detokenizer.push(token_id) == ""
        assert detokenizer.pending_tokens < MAX_PENDING_TOKENS
    assert detokenizer.step([vocabulary["▁chai"], vocabulary["▁is"]]) == " chai is"


@pytest.mark.parametrize("tail", ["f0", "f09f", "f09f98", "c4", "e2 82"])
@pytest.mark.parametrize("kind", ["bytes", "byte fallback"])
def test_an_incomplete_tail_is_flushed_as_one_replacement_character(tail, kind):
    raw = bytes.fromhex(tail)
    if kind == "bytes":
        tokenizer, ids = vocabularies.all_bytes(), list(b"a" + raw)
    else:
        tokenizer = vocabularies.unigram()
        ids = [tokenizer.token_to_id(name) for name in ("a", *(f"<0x{byte:02X}>" for byte in raw))]
    detokenizer = Detokenizer(tokenizer, [])
    assert detokenizer.step(ids) == "a"
    assert detokenizer.pending_tokens == len(raw)
    assert detokenizer.flush() == REPLACEMENT
    assert detokenizer.pending_tokens == 0
    assert detokenizer.flush() == ""


def test_text_in_a_token_that_also_begins_a_character_survives_the_end():
    tokenizer = vocabularies.from_pieces([b"Tea \xe2", b"\x98", b"\x95!"])
    assert streamed(tokenizer, [], [0, 1]) == ["Tea ", "", REPLACEMENT]
    assert streamed(tokenizer, [], [0, 1, 2]) == ["Tea ", "", "☕!", ""]


def test_tokens_that_all_end_inside_a_character_are_shown_as_characters_become_whole():
    tokenizer = vocabularies.from_pieces([b"\xe0\xb8", b"\x81\xe0\xb8", b"\x93\xe0\xb8", b"\x93"])
    deltas = streamed(tokenizer, [], [0, 1, *[2] * 39, 3])
    assert deltas == ["", "ก", *["ณ"] * 40, ""]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"a\xc0\x80b", "a\ufffd\ufffdb"),
        (b"a\xed\xa0\x80b", "a\ufffd\ufffd\ufffdb"),
        (b"a\xf0\x9fb", "a\ufffdb"),
        ("a\ufffdb".encode(), "a\ufffdb"),
    ],
)
def test_invalid_bytes_become_replacement_characters_and_the_stream_goes_on(raw, text):
    assert "".join(streamed(vocabularies.all_bytes(), [], raw)) == text


def test_a_byte_that_spoils_the_run_of_bytes_before_it_costs_no_text():
    tokenizer = vocabularies.unigram()
    bytes_of = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in "你".encode() + b"\xff"]
    ids = [*bytes_of, tokenizer.token_to_id("▁chai"), tokenizer.token_to_id("▁is")]
    assert REPLACEMENT * 4 in tokenizer.decode(ids)
    assert "".join(streamed(tokenizer, [], ids)) == f"你{REPLACEMENT} chai is"


def test_eight_ids_without_a_whole_character_are_given_up_without_breaking_the_next_one():
    detokenizer = Detokenizer(vocabularies.all_bytes(), b"a")
    assert [detokenizer.push(0xFF) for _ in range(7)] == [""] * 7
    assert detokenizer.push(0xF0) == REPLACEMENT * 5
    assert detokenizer.pending_tokens == 3
    assert detokenizer.step(b"\x9f\x98\x80 ok") == REPLACEMENT * 2 + "😀 ok"


@pytest.mark.parametrize(("open_end", "rest"), [([b"\xf0"], b"\x9f\x98\x80"), ([b"\xf0", b"\x9f"], b"\x98\x80")])
def test_only_the_ids_of_the_open_character_go_on_waiting(open_end, rest):
    """Tokens that end one character and begin the next come before; the last of them ends in a byte that is none."""
    crossing = [b"a\xe2", *[b"\x82\xac\xe2"] * (6 - len(open_end)), b"\x82\xac\xff", *open_end]
    pieces = list(dict.fromkeys([*crossing, rest, b"!"]))
    tokenizer = vocabularies.from_pieces(pieces)
    detokenizer = Detokenizer(tokenizer, [])
    ids = [pieces.index(piece) for piece in crossing]
    shown = detokenizer.step(ids)
    assert detokenizer.pending_tokens < len(ids) == 8
    shown += detokenizer.step([pieces.index(rest), pieces.index(b"!")])
    assert shown == tokenizer.decode([*ids, pieces.index(rest), pieces.index(b"!")])


def test_after_eight_ids_no_more_wait_than_a_character_has_bytes_left():
    def waiting(*pieces):
        known = list(dict.fromkeys(pieces))
        detokenizer = Detokenizer(vocabularies.from_pieces(known), [])
        detokenizer.step([known.index(piece) for piece in pieces])
        return detokenizer.pending_tokens

    crossing, spoilt = b"\x82\xac\xe2", b"\x82\xac\xff"
    assert waiting(b"a\xe2", *[crossing] * 7) == 3
    assert waiting(b"a\xe2", *[crossing] * 5, spoilt, b"\xf0") == 1
    assert waiting(b"a\xe2", *[crossing] * 4, spoilt, b"\xf0", b"\x9f") == 2


def test_special_tokens_that_are_shown_stand_before_the_answer_too():
    tokenizer = vocabularies.metaspace_only()
    special, the = tokenizer.token_to_id(SPECIAL), tokenizer.token_to_id("▁The")
    assert Detokenizer(tokenizer, [special], skip_special_tokens=False).step([the]) == " The"
    assert Detokenizer(tokenizer, [special]).step([the]) == "The"


def test_special_tokens_between_the_bytes_of_a_character_do_not_break_it():
    tokenizer = vocabularies.all_bytes()
    special = tokenizer.token_to_id(SPECIAL)
    ids = [special, 0xF0, *[special] * 12, 0x9F, *[special] * 30, 0x98, 0x80, *b"ok"]
    assert "".join(streamed(tokenizer, b"a", ids)) == "😀ok"


def test_an_id_that_is_no_id_is_an_error_not_a_replacement():
    with pytest.raises(TypeError):
        Detokenizer(vocabularies.all_bytes(), b"a").push(-1)


#: Bytes that begin, go on with and end characters, and words, among them those that cross.
LIKELY = [0xF0, 0x9F, 0x98, 0x80, 0xE2, 0x82, 0xAC, 0xFF, 0xC3, 0xA9, *range(256, 266)]


#: Nothing that completes a character for long.
OPEN = [0xF0, 0x9F, 0xE2, 0xFF, *range(260, 266)]


def byte_ids(tape, at_most=60):
    """Any, likely, whole words, or only what stays open: each alone, or mixed."""
    kinds = [lambda: tape.below(267), lambda: tape.of(LIKELY), lambda: 256 + tape.below(11), lambda: tape.of(OPEN)]
    mixed = tape.of([kinds, kinds[:3], [kinds[1]], [kinds[3]], [kinds[3], kinds[3], kinds[1]]])

    def one():
        return tape.of(mixed)()

    return tape.many(one, at_most)


@given(inputs(128, lambda tape: (byte_ids(tape, 6), byte_ids(tape))))
def test_any_ids_of_a_byte_level_vocabulary_equal_the_whole_decode_with_bounded_pending(case):
    prompt_tail, ids = case
    tokenizer = with_bytes()
    detokenizer = Detokenizer(tokenizer, [*prompt_tail, 256])
    shown = ""
    for token_id in ids:
        shown += detokenizer.push(token_id)
        assert detokenizer.pending_tokens < MAX_PENDING_TOKENS
    shown += detokenizer.flush()
    whole = tokenizer.decode(ids)
    assert shown.rstrip(REPLACEMENT) == whole.rstrip(REPLACEMENT)
    assert shown.endswith(REPLACEMENT) == whole.endswith(REPLACEMENT)


@given(inputs(96, lambda tape: (tape.of(list(KINDS)), tape.any_text(10), tape.any_text(40))))
def test_any_text_comes_back_from_any_vocabulary(case):
    kind, prompt, text = case
    tokenizer = KINDS[kind]()
    prompt_ids = tokenizer.encode(prompt + "The").ids
    ids = tokenizer.encode(text).ids
    whole = tokenizer.decode(prompt_ids + ids)
    assert "".join(streamed(tokenizer, prompt_ids, ids)) == whole[len(tokenizer.decode(prompt_ids)) :]


#: Bytes but those of ASCII, which would be part of a spoilt run, and words.
SPOILT = [*range(129, 257), *[*range(257, 270)] * 4]


@given(inputs(64, lambda tape: tape.many(lambda: tape.of(SPOILT), 60)))
def test_no_whole_word_is_ever_lost_among_spoilt_bytes(ids):
    tokenizer = KINDS["Unigram"]()
    prompt = [tokenizer.token_to_id("a")]
    ascii_only = "".join(filter(str.isascii, "".join(streamed(tokenizer, prompt, ids))))
    assert ascii_only == "".join(filter(str.isascii, tokenizer.decode(prompt + ids)))[1:]


@given(inputs(96, lambda tape: (1 + tape.below(7), byte_ids(tape, 40))))
def test_how_ids_are_grouped_into_steps_changes_nothing(case):
    size, ids = case
    tokenizer = with_bytes()
    grouped = Detokenizer(tokenizer, b"a")
    text = "".join(grouped.step(ids[start : start + size]) for start in range(0, len(ids), size))
    assert text + grouped.flush() == "".join(streamed(tokenizer, b"a", ids))


def windowed(tokenizer, ids):
    """The other way engines do it: decode a window twice and show the difference, unless it ends in U+FFFD."""
    shown, start, read = "", 0, 0
    for end in range(1, len(ids) + 1):
        before = tokenizer.decode(ids[start:read])
        text = tokenizer.decode(ids[start:end])
        if len(text) > len(before) and not text.endswith(REPLACEMENT):
            shown += text[len(before) :]
            start, read = read, end
    return shown + tokenizer.decode(ids[start:])[len(tokenizer.decode(ids[start:read])) :]


@pytest.mark.parametrize("kind", [*KINDS, "WordPiece"])
@pytest.mark.parametrize("corpus", [*CORPORA, "code", "English"])
def test_the_text_equals_windowed_decoding_and_decoding_the_whole(kind, corpus):
    tokenizer = KINDS[kind]() if kind in KINDS else wordpiece()
    text = {"code": CODE, "English": ENGLISH.strip()}.get(corpus) or CORPORA[corpus]
    ids = tokenizer.encode(text).ids
    shown = "".join(streamed(tokenizer, [], ids))
    assert shown == tokenizer.decode(ids) == windowed(tokenizer, ids)
    assert REPLACEMENT not in shown


CODE = "def f(x):\n    return {'a': [1, 2]}  # ok\n\n\tif x != 0: y += 1"


@functools.cache
def wordpiece():
    return vocabularies.wordpiece([*CORPORA.values(), ENGLISH, CODE])


class Counting(Detokenizer):
    """A detokenizer that counts the ids it decodes itself, beside the stream it steps."""

    decoded_ids = 0

    def _decode(self, token_ids):
        self.decoded_ids += len(token_ids)
        return super()._decode(token_ids)


@given(inputs(128, byte_ids))
def test_decoding_work_for_an_id_is_bounded_whatever_came_before(ids):
    """Counted: at the 8th open id each alone, all together, and in up to three cuts; plain text costs none of it."""
    detokenizer = Counting(with_bytes(), [256])
    primed = detokenizer.decoded_ids
    detokenizer.step(b"plain text")
    assert detokenizer.decoded_ids == primed
    for token_id in ids:
        before = detokenizer.decoded_ids
        detokenizer.push(token_id)
        assert detokenizer.decoded_ids - before <= 8 + 8 + 3 * 8 + 3
