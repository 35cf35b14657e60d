"""Owns how Django is called for one request: without what only pages and cancelled requests need, where it can be."""

from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.urls import set_script_prefix

from chatsite.handover import Receive, Scope, Send
from chatsite.middleware import API_PREFIX, HEALTH, METRICS

SHORT_WAY = (API_PREFIX, HEALTH, METRICS)
#: The one path that takes files, and what a form has around its file.
UPLOAD = f"{API_PREFIX}files"
FORM_BYTES = 64 * 1024


def max_body_bytes(path: str) -> int:
    """How long the body of a request may be."""
    limit: int = settings.MAX_BODY_BYTES
    return max(limit, settings.BATCH_FILE_BYTES + FORM_BYTES) if path == UPLOAD else limit


class DjangoHandler(ASGIHandler):
    """Django's ASGI handler, with a short way for the API, the sign of life and the metrics.

    Django spends two thread changes and two tasks on each request: old connections of the request's thread are
    closed before and after it, and a disconnect is waited for. An API request uses no connection that
    ``streaming.store`` does not look after, and ``handover.Exchange`` tells Django of no disconnect. Whether the
    process lives must not wait for a thread that a thousand others wait for.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith(SHORT_WAY):
            await super().__call__(scope, receive, send)
            return
        with await self._body(receive, max_body_bytes(scope["path"])) as body:
            set_script_prefix(get_script_prefix(scope))
            request, refusal = self.create_request(scope, body)
            response: Any = refusal if request is None else await self.run_get_response(request)
            await self.send_response(response, send)

    @staticmethod
    async def _body(receive: Receive, limit_bytes: int) -> BytesIO:
        """In memory, and no more of it than what is known to be too much. Our own server has bounded it before."""
        body = BytesIO()
        more_body = True
        while more_body and body.tell() <= limit_bytes:
            message = await receive()
            body.write(message.get("body", b""))
            more_body = message.get("more_body", False)
        body.seek(0)
        return body
