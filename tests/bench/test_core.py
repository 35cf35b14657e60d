"""Owns that the core's bench measures what it says, and fails where a token costs more late than early."""

import pytest

from bench import core
from streaming.protocol.detokenizer import Detokenizer


class Slower(Detokenizer):
    """Every token decodes all tokens before it again, as a careless detokenizer does."""

    def __init__(self, tokenizer, prompt_ids):
        super().__init__(tokenizer, prompt_ids)
        self.ids = []

    def push(self, token_id):
        self.ids.append(token_id)
        self._decode(self.ids)
        return super().push(token_id)


def test_work_that_grows_with_the_answer_fails_the_bench(monkeypatch, capsys):
    monkeypatch.setattr(core, "POSITIONS", (20, 500))
    monkeypatch.setattr(core, "WINDOW_TOKENS", 10)
    monkeypatch.setattr(core, "ROUNDS", 3)
    monkeypatch.setattr(core, "REPEATS", 1)
    monkeypatch.setattr(core, "ENCODERS", {"openai_chat": core.ENCODERS["openai_chat"]})
    monkeypatch.setattr(core, "Detokenizer", Slower)
    assert core.main() == 1
    assert capsys.readouterr().out.count("TOO MUCH") == 3


@pytest.mark.parametrize(("costs_us", "kept"), [((3.0, 3.5), True), ((3.0, 3.7), False), ((16.0, 16.0), False)])
def test_a_token_may_cost_a_fifth_more_late_and_never_too_much(costs_us, kept):
    assert core.holds(costs_us) is kept
