"""A second device follows what happens at the first: its list, a running answer, titles, stops. Costs about 15 s."""

import re

from playwright.sync_api import expect

ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.02}
LOST = "WebSocket connection|Failed to load resource|ERR_"


def is_told(device) -> None:
    """Wait until the device's socket is open: what happens from now on it is told."""
    expect(device.page.get_by_test_id("sidebar")).to_be_attached()
    device.page.wait_for_function("() => window.__sockets?.some((socket) => socket.greeted)")


def devices(open_chat, name: str, count: int = 2):
    """Browsers that share nothing but the person."""
    opened = []
    for _ in range(count):
        device = open_chat(name)
        is_told(device)
        opened.append(device)
    return opened


def test_a_new_conversation_its_running_answer_and_its_title_appear_at_the_other_device(open_chat):
    desk, phone = devices(open_chat, "two-1")
    desk.ask("Where do lighthouses stand?")
    item = phone.item("Where do lighthouses stand?")
    expect(item).to_be_visible()
    desk.ends()
    expect(item.locator(".item-running")).to_have_count(0)
    item.locator("a").click()
    expect(phone.markdown).to_have_text(desk.text)
    before = phone.watch.sent.count(("GET", phone_path(phone)))
    desk.ask("And at night?")
    expect(phone.questions).to_have_count(2)
    desk.ends()
    phone.ends()
    expect(phone.markdown).to_have_text(desk.text)
    assert phone.watch.sent.count(("GET", phone_path(phone))) == before + 1, "one look for one answer"
    desk.items.first.hover()
    desk.items.first.get_by_test_id("rename").click()
    desk.page.get_by_test_id("rename-input").fill("Lights")
    desk.page.keyboard.press("Enter")
    expect(phone.item("Lights")).to_be_visible()


def phone_path(phone) -> str:
    return f"/api/conversations/{phone.conversation_id}"


def test_a_running_answer_is_followed_and_the_one_that_supersedes_it_too(open_chat):
    desk, phone = devices(open_chat, "two-2")
    desk.play(**ENDLESS)
    phone.items.first.locator("a").click()
    phone.writes(30)
    desk.play(outputs=[{"text": "instead"}])
    desk.ends()
    expect(phone.answers).to_have_count(2)
    expect(phone.markdown).to_have_text("instead")


def test_the_other_device_stops_an_answer_that_it_does_not_show(site, open_chat):
    desk, phone = devices(open_chat, "two-3")
    desk.play(**ENDLESS)
    desk.writes(30)
    stop = phone.items.first.get_by_test_id("stop-item")
    phone.items.first.hover()
    stop.click()
    desk.ends("cancelled")
    expect(phone.items.first.locator(".item-running")).to_have_count(0)
    row = site.row(desk.response_id)
    assert (row["end_state"], row["end_reason"]) == ("cancelled", "user")
    assert ("POST", f"/api/responses/{desk.response_id}/cancel") not in phone.watch.sent, "its socket said it"


def test_a_conversation_that_is_deleted_at_one_device_goes_at_the_other(open_chat):
    desk, phone = devices(open_chat, "two-4")
    desk.ask("Soon gone")
    desk.ends()
    expect(phone.item("Soon gone")).to_be_visible()
    desk.items.first.hover()
    desk.items.first.get_by_test_id("delete").click()
    expect(desk.item("Soon gone")).to_have_count(0)
    expect(phone.item("Soon gone")).to_be_visible()
    desk.page.close()  # while the page is there it can still be brought back
    expect(phone.item("Soon gone")).to_have_count(0)


def test_after_a_restart_of_the_server_the_other_device_follows_again(site, open_chat):
    desk, phone = devices(open_chat, "two-5")
    for device in (desk, phone):
        device.watch.allow(LOST)
    phone.page.evaluate("window.__sockets.length = 0")
    site.kill()
    site.start()
    is_told(phone)
    desk.ask("After the restart")
    expect(phone.item("After the restart")).to_be_visible()
    desk.ends()


def test_who_signs_out_at_one_tab_is_signed_out_at_the_other(site, watched):
    context, watch = watched()
    watch.allow("status of 401|WebSocket connection")
    page = context.new_page()
    page.goto(site.manage("login_link", "two-6"))
    other = context.new_page()
    other.goto(site.url)
    other.wait_for_function("() => window.__sockets?.some((socket) => socket.greeted)")
    token = page.evaluate("document.cookie").split("csrftoken=")[1][:64]
    page.request.post(f"{site.url}/logout/", form={"csrfmiddlewaretoken": token}, headers={"Referer": site.url})
    expect(other).to_have_url(re.compile("/login/"))
