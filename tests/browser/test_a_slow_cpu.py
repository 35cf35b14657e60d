"""A CPU that is four times slower: a fast answer is painted as it comes, and one can type meanwhile. Costs about 10 s.

What is done is asserted, not how long it takes: that is for `make bench-page`.
"""

from playwright.sync_api import expect

SLOWDOWN = 4
WORDS = [f"w{number}" for number in range(800)]
TYPED = "typed now"


def test_a_fast_answer_is_painted_and_the_box_takes_what_is_typed(chat):
    devtools = chat.page.context.new_cdp_session(chat.page)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    chat.play(outputs=[*({"text": f"{word} "} for word in WORDS), {"gate": "never"}], delay_s=0.008)
    chat.paints(5)
    before = len(chat.probe("paints"))
    for number, key in enumerate(TYPED, 1):
        chat.composer.press(key if key != " " else "Space")
        expect(chat.composer).to_have_value(TYPED[:number])
    paints = chat.probe("paints")
    whole = " ".join(WORDS)
    assert len(paints) > before + 3
    assert len(paints[-1]["text"]) < len(whole) - 100, "typing took longer than the answer"
    chat.writes(len(whole))
    assert chat.text.rstrip() == whole
    texts = [paint["text"] for paint in chat.probe("paints")]
    assert all(whole.startswith(text.rstrip()) for text in texts)
    assert len(texts) > 20
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    expect(chat.composer).to_have_value(TYPED)
