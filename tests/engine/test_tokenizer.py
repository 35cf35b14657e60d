"""A model's vocabulary and template as they come from disk."""

import hashlib
import json
import os

import pytest

from streaming.engine.prompt import render_prompt
from streaming.engine.tokenizer import TokenizerBundle, TokenizerError
from tests.engine.conftest import byte_level, save

MESSAGES = [{"role": "user", "content": "hi"}]


def rendered(bundle):
    return bundle.tokenizer.decode(render_prompt(bundle, MESSAGES), skip_special_tokens=False)


def test_a_folder_and_its_tokenizer_json_are_the_same_bundle(tmp_path):
    folder = save(byte_level(special=["<|end|>"]), tmp_path / "m", "{{ messages[0].content }}")
    bundle = TokenizerBundle.load(folder)
    assert bundle is TokenizerBundle.load(str(folder / "tokenizer.json"))
    assert bundle.tokenizer_hash == hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()


def test_a_changed_file_is_loaded_again(tmp_path):
    folder = save(byte_level(), tmp_path / "m", "one")
    before = TokenizerBundle.load(folder)
    (folder / "chat_template.jinja").write_text("two")
    os.utime(folder / "chat_template.jinja", ns=(1, 1))
    assert (rendered(before), rendered(TokenizerBundle.load(folder))) == ("one", "two")


@pytest.mark.parametrize(
    "template",
    ["from config", [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "from config"}]],
)
def test_the_template_of_the_config_counts_when_there_is_no_file(tmp_path, template):
    folder = save(byte_level(), tmp_path / "m", chat_template=template)
    assert rendered(TokenizerBundle.load(folder)) == "from config"


def test_the_template_file_wins_over_the_config(tmp_path):
    folder = save(byte_level(), tmp_path / "m", "from file", chat_template="from config")
    assert rendered(TokenizerBundle.load(folder)) == "from file"


def test_named_tokens_are_read_as_texts_and_as_objects(tmp_path):
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "pad_token": None}
    bundle = TokenizerBundle.load(save(byte_level(special=["<s>", "</s>"]), tmp_path / "m", **config))
    assert bundle.special_tokens == {"bos_token": "<s>", "eos_token": "</s>"}


def test_what_does_not_load_is_one_line_that_names_the_file(tmp_path):
    def failure(path):
        with pytest.raises(TokenizerError) as caught:
            TokenizerBundle.load(path)
        assert "\n" not in str(caught.value)
        assert str(tmp_path) in str(caught.value)
        return str(caught.value)

    assert "no tokenizer.json" in failure(tmp_path / "nowhere")
    assert "no tokenizer.json" in failure(tmp_path)
    for nth, text in enumerate(["", "[]", "{}", "nonsense", '{"model": {"type": "BPE"}, "added_tokens": 3}', "\0"]):
        (tmp_path / f"{nth}.json").write_text(text)
        assert "not a tokenizer" in failure(tmp_path / f"{nth}.json")
    folder = save(byte_level(), tmp_path / "m", "{% for %}")
    assert "chat template does not compile" in failure(folder)
    (save(byte_level(), tmp_path / "n") / "tokenizer_config.json").write_text("{")
    assert "not JSON" in failure(tmp_path / "n")


def test_the_byte_tokenizer_gives_every_byte_its_own_id():
    bundle = TokenizerBundle.bytes_only()
    text = "Café ☕ हिन्दी \0 \x7f 😀"
    ids = bundle.vocabulary.encode(text)
    assert ids == list(text.encode())
    assert bundle.tokenizer.decode(ids) == text
    assert json.loads(bundle.tokenizer.to_str())["added_tokens"][1]["content"] == "<|im_end|>"
