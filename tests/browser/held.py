"""Owns requests of a page that wait until a test lets them go. Changes nothing about them."""

from playwright.sync_api import Page, Route

from tests.e2e.reading import eventually

PUMP_MS = 20


class Held:
    """Requests to addresses of a pattern, from now on; of ``times`` only the first so many."""

    def __init__(self, page: Page, pattern: str, times: int | None = None):
        self._page = page
        self._routes: list[Route] = []
        page.route(pattern, self._take, times=times)

    def _take(self, route: Route) -> None:
        self._routes.append(route)

    def came(self) -> Route:
        """The first one, as soon as the page has asked."""
        return eventually(lambda: self._routes or self._page.wait_for_timeout(PUMP_MS))[0]

    def let_go(self) -> None:
        """The first one goes on its way, as soon as the page has asked."""
        self.came().continue_()
