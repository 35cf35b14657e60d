"""Owns asking axe what it finds on a page against WCAG 2.2 AA. Drives nothing."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
#: One that never ends, as of what is being waited for, has no end to go to.
FINISH = """Promise.all(
  document.getAnimations()
    .filter((one) => one.playState === 'running' && one.effect.getComputedTiming().endTime !== Infinity)
    .map((one) => one.finish())
)"""
axe = Axe()


def found(page: Page) -> list[str]:
    """Each violation with the elements that have it. Animations are over: half a fade has half its contrast."""
    page.evaluate(FINISH)
    violations = axe.run(page, options=RULES).response["violations"]
    nodes = [(one["id"], node) for one in violations for node in one["nodes"]]
    return [f"{rule}: {node['html'][:150]} {node['failureSummary'][:300]}" for rule, node in nodes]


def found_in_both(page: Page) -> list[str]:
    """The same, in light and in dark colours."""
    in_light = found(page)
    page.emulate_media(color_scheme="dark")
    in_dark = found(page)
    page.emulate_media(color_scheme="light")
    return in_light + in_dark
