"""A conversation that has outgrown its model's context: what is dropped, and what finding that out costs."""

import dataclasses

import pytest

from streaming.engine.registry import bundle_for
from streaming.models import Engine
from streaming.ownership import prompting
from streaming.ownership.ask import Ask, Refused
from streaming.protocol.policy import parse_policy


def ask(*turns: tuple[str, str]) -> Ask:
    messages = [{"role": role, "content": content} for role, content in turns]
    return Ask(
        user_id=1, purpose="chat", dialect="openai_responses", stream=True, model="scripted", messages=messages,
        policy=parse_policy("abort", 3600), conversation_id="conv_1",
    )  # fmt: skip


def rendered(monkeypatch) -> list[list[str]]:
    """The contents of each prompt that is rendered from here on."""
    seen = []
    real = prompting.render_prompt

    def noted(bundle, messages, **options):
        seen.append([message["content"] for message in messages])
        return real(bundle, messages)

    monkeypatch.setattr(prompting, "render_prompt", noted)
    return seen


async def test_the_oldest_exchanges_go_until_an_answer_has_its_share_of_the_context(row, monkeypatch):
    row.context_tokens = 2000
    seen = rendered(monkeypatch)
    exchanges = [turn for n in range(200) for turn in (("user", f"{n:04}" * 20), ("assistant", "a" * 100))]
    prompt = await prompting.fit(ask(*exchanges, ("user", "last")), row, 100)
    kept = seen[-1]
    assert len(prompt.token_ids) <= 1500 < len(prompt.token_ids) + 200
    assert kept[-1] == "last"
    assert kept[0] == exchanges[-len(kept) + 1][1]
    assert kept[0].startswith("0")
    assert len(seen) <= 12


async def test_of_two_questions_in_a_row_that_do_not_fit_together_the_newer_stays(row, monkeypatch):
    row.context_tokens = 2000
    seen = rendered(monkeypatch)
    await prompting.fit(ask(("user", "x" * 1400), ("user", "y" * 1400)), row, 100)
    assert seen[-1] == ["y" * 1400]


async def test_what_the_model_is_told_stays_whatever_goes(row, monkeypatch):
    row.context_tokens = 2000
    seen = rendered(monkeypatch)
    exchanges = [turn for n in range(30) for turn in (("user", f"{n:04}" * 20), ("assistant", "a" * 100))]
    prompt = await prompting.fit(ask(("system", "Be brief."), *exchanges, ("user", "last")), row, 100)
    assert seen[-1][0] == "Be brief."
    assert seen[-1][1].startswith("00")
    assert seen[-1][-1] == "last"
    assert [turn["content"] for turn in prompt.messages] == seen[-1]
    assert len(seen[-1]) < 40


async def test_the_prompt_of_an_answer_that_is_written_on_ends_with_what_there_is_of_it(row):
    whole = ask(("user", "old " * 300), ("assistant", "x"), ("user", "Why?"), ("assistant", "Because <|im_end|> the"))
    row.context_tokens = 1000
    prompt = await prompting.fit(dataclasses.replace(whole, continues=True), row, 100)
    asked = await prompting.fit(ask(("user", "Why?")), row, 100)
    tokenizer = bundle_for(row).tokenizer
    assert list(prompt.token_ids[: len(asked.token_ids)]) == list(asked.token_ids)
    written = prompt.token_ids[len(asked.token_ids) :]
    assert tokenizer.decode(written) == "Because <|im_end|> the"


async def test_a_prompt_that_leaves_no_token_for_an_answer_does_not_fit(row):
    whole = dataclasses.replace(
        ask(("user", "one " * 50), ("assistant", "two"), ("user", "three")), conversation_id=None
    )
    token_ids = await prompting.tokenized(whole, row)
    row.context_tokens = len(token_ids) + 1
    assert await prompting.fitted(whole, row) == (whole.messages, token_ids)
    for context_tokens in (len(token_ids), len(token_ids) // 9):
        row.context_tokens = context_tokens
        assert await prompting.fitted(whole, row) == (whole.messages, None)


async def test_an_engine_that_takes_turns_cannot_write_on_from_a_text():
    hosted = Engine(name="h", kind="openai", model="m", url="http://127.0.0.1:9/v1")
    cut = dataclasses.replace(ask(("user", "Why?"), ("assistant", "Be")), continues=True)
    with pytest.raises(Refused, match="continues") as refused:
        await prompting.fit(cut, hosted, 100)
    assert (refused.value.status, refused.value.param) == (400, "continues")
