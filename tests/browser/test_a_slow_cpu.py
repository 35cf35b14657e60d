"""A CPU that is four times slower: a fast answer is painted as it comes, and one can type meanwhile. Costs about 10 s.

What is done is asserted, not how long it takes: that is for `make bench-page`.
"""

from playwright.sync_api import expect

SLOWDOWN = 4
WORDS = [f"w{number}" for number in range(800)]
TYPED = "typed now"


def test_a_fast_answer_is_painted_and_the_box_takes_what_is_typed(site, chat):
    devtools = chat.page.context.new_cdp_session(chat.page)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    chat.play(outputs=[{"text": f"{word} "} for word in WORDS], repeat=0, delay_s=0.008)
    chat.paints(5)
    for number, key in enumerate(TYPED, 1):
        chat.composer.press(key if key != " " else "Space")
        expect(chat.composer).to_have_value(TYPED[:number])
        chat.paints(len(chat.probe("paints")) + 1)
    chat.paints(21)
    chat.page.keyboard.press("Escape")
    chat.ends("cancelled")
    expect(chat.composer).to_have_value(TYPED)
    whole = site.row(chat.response_id)["output_text"].rstrip()
    assert chat.text == whole
    assert all(whole.startswith(paint["text"].rstrip()) for paint in chat.probe("paints"))
