"""A conversation that has outgrown its model's context: what is dropped, and what finding that out costs."""

from streaming.ownership import prompting
from streaming.ownership.ask import Ask
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

    def noted(bundle, messages):
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
