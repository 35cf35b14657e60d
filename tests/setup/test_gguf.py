"""Owns the promises of the GGUF reader: right on what is right, one clear error on everything else."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.setup import gguf


def packed(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def file_of(*pairs, version=3, count=None):
    head = b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs) if count is None else count)
    return head + b"".join(packed(key) + value for key, value in pairs)


def read(tmp_path, data):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    return gguf.read_metadata(path)


STRINGS = struct.pack("<IIQ", 9, 8, 2) + packed("a") + packed("é")
GOOD = file_of(
    ("text", struct.pack("<I", 8) + packed("hello")),
    ("yes", struct.pack("<I?", 7, True)),
    ("number", struct.pack("<IQ", 10, 2**63)),
    ("half", struct.pack("<If", 6, 0.5)),
    ("ints", struct.pack("<IIQ3i", 9, 5, 3, -1, 0, 1)),
    ("strings", STRINGS),
    ("nested", struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQB", 0, 1, 7)),
)


def test_every_kind_of_value_is_read(tmp_path):
    assert read(tmp_path, GOOD) == {
        "text": "hello",
        "yes": True,
        "number": 2**63,
        "half": 0.5,
        "ints": [-1, 0, 1],
        "strings": ["a", "é"],
        "nested": [[7]],
    }


def test_the_demo_model_names_its_vocabulary(metadata):
    assert len(metadata["tokenizer.ggml.tokens"]) == 49_152
    assert metadata["tokenizer.ggml.pre"] == "smollm"
    assert "<|im_start|>" in metadata["tokenizer.chat_template"]


@pytest.mark.parametrize("length", range(len(GOOD)))
def test_a_file_cut_at_any_byte_is_refused(tmp_path, length):
    with pytest.raises(gguf.GGUFError, match="at byte"):
        read(tmp_path, GOOD[:length])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"PK\x03\x04" + bytes(40), "not a GGUF file"),
        (file_of(version=1), "version 1"),
        (file_of(version=0x03000000), "version"),
        (file_of(count=2**63), "pairs"),
        (file_of(("k", struct.pack("<I", 99))), "unknown value type 99"),
        (file_of(("k", struct.pack("<IIQ", 9, 99, 1))), "unknown value type 99"),
        (file_of((b"\xff", struct.pack("<IB", 0, 1))), "not UTF-8"),
        (file_of(("k", struct.pack("<IQ", 8, 2**62))), "bytes in a string"),
        (file_of(("k", struct.pack("<IIQ", 9, 8, 2**62))), "array items"),
        (file_of(("k", struct.pack("<IIQ", 9, 8, 2**21))), "announced"),
        (file_of(("k", struct.pack("<IIQ", 9, 12, 2**21))), "announced"),
        (file_of(("k", struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 60)), "nested too deep"),
        (file_of(("k", struct.pack("<IB", 0, 1)), ("k", struct.pack("<IB", 0, 2))), "twice"),
    ],
)
def test_a_hostile_file_is_refused_by_name(tmp_path, data, complaint):
    with pytest.raises(gguf.GGUFError, match=complaint):
        read(tmp_path, data)


@given(at=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
def test_one_changed_byte_gives_values_or_a_clear_error(tmp_path_factory, at, byte):
    data = bytearray(GOOD)
    data[at] = byte
    with contextlib.suppress(gguf.GGUFError):
        assert isinstance(read(tmp_path_factory.mktemp("gguf"), bytes(data)), dict)
