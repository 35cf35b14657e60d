"""What people's pages are told over WebSockets. No text of an answer goes this way."""

from streaming import ownership

from . import sockets, standing


def start() -> None:
    """Begin to look for what no wake-up told; after the process has announced itself."""
    ownership.current().run_beside(standing.current().run)


def stop() -> None:
    """Send every page to another connection."""
    sockets.current().send_away()
