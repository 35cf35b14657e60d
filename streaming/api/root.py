"""Owns the two API roots: /v1 for keys, /api for the page. Holds no operation itself."""

from . import (
    anthropic_messages,
    batches,
    chat_completions,
    conversations,
    created_responses,
    diagnostics,
    files,
    me,
    messages,
    own,
    responses,
    search,
    shares,
)
from .auth import BearerAuth, SessionAuth
from .openapi import DocumentedAPI
from .validation import StrictAPI

v1 = DocumentedAPI(title="Chat API", version="1", urls_namespace="v1", auth=BearerAuth())
page = StrictAPI(
    title="Page API", version="1", urls_namespace="page", auth=SessionAuth(), openapi_url=None, docs_url=None
)

# Routers with an API key.
v1.add_router("", chat_completions.router, tags=["Chat completions"])
v1.add_router("", responses.v1_router, tags=["Responses"])
v1.add_router("", created_responses.router, tags=["Responses"])
v1.add_router("", anthropic_messages.router, tags=["Messages"])
v1.add_router("", files.router, tags=["Files"])
v1.add_router("", batches.router, tags=["Batches"])
v1.add_router("", diagnostics.router)

# Routers with a session.
page.add_router("", me.router)
page.add_router("", own.router)
page.add_router("", conversations.router)
page.add_router("", messages.router)
page.add_router("", shares.router)
page.add_router("", search.router)
page.add_router("", responses.page_router)
