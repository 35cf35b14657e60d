"""An answer appears as it is made: commits, reads and paints of one real answer; every script comes out whole."""

import re
from itertools import accumulate

import pytest
from playwright.sync_api import expect

from tests.e2e.reading import eventually
from tests.gates import stairs

UNICODE = "नमस्ते! आपका चाय ☕ तैयार है। 👩‍👩‍👧‍👦 परिवार, 🏳️‍🌈, 日本語の文章と한국어, é decomposed, 👍🏽, 𝒜𝓉 the end."


def words(first: int, behind: int) -> str:
    return "".join(f"w{number} " for number in range(first, behind))


#: Four words each.
STEPS = [words(first, first + 4) for first in range(0, 120, 4)]


def said(text: str) -> list[dict[str, str]]:
    """Each word by itself."""
    return [{"text": f"{word} "} for word in text.split()]


def letters(text: str) -> str:
    """What Markdown leaves as it is."""
    return re.sub(r"[\W\d_]+", "", text)


@pytest.mark.engine
def test_a_real_answer_takes_twenty_commits_reads_and_paints(site, chat):
    chat.choose("smollm2")
    chat.without_chance()
    chat.ask("Tell me about lighthouses")
    chat.paints(60)
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    response_id = chat.response_id
    # Adjacent deltas of one commit are one event: so many events are at least so many commits.
    texts = site.rows(
        "SELECT COUNT(*) FROM streaming_responseevent WHERE response_id = ? AND kind = 'text'", response_id
    )
    assert texts[0][0] >= 20
    reads, paints, received = chat.probe("reads"), chat.probe("paints"), chat.probe("received")
    assert len({read["chars"] for read in reads}) >= 20
    assert len({len(paint["text"]) for paint in paints}) >= 20
    # A typewriter would paint more often than reads come, and show texts that no read ended with.
    assert len(paints) <= len(reads)
    assert {letters(paint["text"]) for paint in paints} <= {letters(received[: read["chars"]]) for read in reads}
    row = site.row(response_id)
    eventually(lambda: site.row(response_id)["delivered_tokens"] == row["sent_tokens"])  # noted when it has left
    expect(chat.status.get_by_test_id("figures")).to_contain_text(f"{row['completion_tokens']:,} tokens")


def test_hindi_emoji_and_cjk_are_never_shown_half(site, chat):
    data = UNICODE.encode()
    cuts = range(0, len(data), 9)
    steps = [[{"bytes": data[at : min(at + 2, cut + 9)].hex()} for at in range(cut, cut + 9, 2)] for cut in cuts]
    outputs, gates = stairs(steps, site.data_dir)
    chat.play(outputs=outputs, delay_s=0.003)
    chat.climbs(gates, [data[:cut].decode(errors="ignore") for cut in cuts[1:]])
    chat.ends()
    assert chat.text == UNICODE
    assert chat.probe("replacements") == 0
    assert len(chat.probe("paints")) >= 20
    assert all(UNICODE.startswith(paint["text"].rstrip()) for paint in chat.probe("paints"))


def test_two_tabs_follow_one_answer(site, chat):
    expected = "".join(STEPS).strip()
    outputs, gates = stairs([said(step) for step in STEPS], site.data_dir)
    chat.play(outputs=outputs)
    other = chat.second_tab(f"/c/{chat.conversation_id}")
    other.climbs(gates, accumulate(STEPS[:-1]))
    for tab in (chat, other):
        tab.ends()
        assert tab.text == expected
        assert all(expected.startswith(paint["text"].rstrip()) for paint in tab.probe("paints"))
    assert other.response_id == chat.response_id
    assert len(other.probe("paints")) >= 20
    assert site.row(chat.response_id)["output_text"].rstrip() == expected


def test_a_reload_in_mid_answer_goes_on_and_doubles_nothing(site, chat):
    before, steps = words(0, 60), [words(first, first + 4) for first in range(60, 148, 4)]
    expected = "".join([before, *steps]).strip()
    outputs, gates = stairs([said(before), *map(said, steps)], site.data_dir)
    chat.play(outputs=outputs, delay_s=0.02)
    chat.writes(60)
    response_id = chat.response_id
    chat.reload()
    chat.writes(60)
    figures = chat.status.get_by_test_id("figures")
    expect(figures).to_have_count(0)
    assert len(chat.text) < len(expected)
    chat.climbs(gates, accumulate(steps[:-1], initial=before))
    chat.ends()
    expect(figures).to_have_text(re.compile(r"^[\d,]+ tokens · first token [\d.]+ m?s · [\d.]+ tokens/s$"))
    told = figures.text_content()
    assert chat.text == expected
    assert all(expected.startswith(paint["text"].rstrip()) for paint in chat.probe("paints"))
    assert len(chat.probe("paints")) >= 20
    assert chat.response_id == response_id
    assert site.row(response_id)["output_text"] == site.log_text(response_id) == expected + " "
    assert [path for method, path in chat.watch.sent if path.endswith("/messages")] == [
        f"/api/conversations/{chat.conversation_id}/messages"
    ]
    chat.reload()
    expect(figures).to_have_text(told)


def test_a_new_message_supersedes_the_running_answer(site, chat):
    chat.play(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
    chat.writes(30)
    first = chat.response_id
    chat.play(outputs=[{"text": "second "}, {"text": "answer"}], delay_s=0.02)
    chat.ends()
    assert chat.text == "second answer"
    expect(chat.answers.first.get_by_test_id("end-mark")).to_have_text("Superseded by a newer message")
    chat.reload()
    expect(chat.answers).to_have_count(2)
    row = site.row(first)
    assert (row["end_state"], row["end_reason"]) == ("cancelled", "superseded")
    assert chat.answers.first.get_by_test_id("markdown").text_content() == row["output_text"].strip()
    expect(chat.answers.first.get_by_test_id("end-mark")).to_have_text("Superseded by a newer message")
    assert chat.text == "second answer"
