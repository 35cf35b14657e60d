"""Routes for tests: an API with a body, a page and an API call that break, beside everything that is served."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from django.urls import path
from ninja import Router
from pydantic import Field

from chatsite import urls
from streaming.api.auth import BearerAuth, caller
from streaming.api.schemas import StrictBody
from streaming.api.validation import StrictAPI

router = Router()


class Part(StrictBody):
    text: str


class Probe(StrictBody):
    count: Annotated[int, Field(ge=1, le=64)] = 1
    heat: float | None = None
    stop: Annotated[list[str], Field(max_length=4)] | str | None = None
    parts: list[Part] = []


@router.post("/probe")
async def probe(request: HttpRequest, body: Probe):
    return {"user": caller(request).user.username, "body": body.model_dump()}


@router.get("/broken")
async def broken(request: HttpRequest):
    raise RuntimeError("secret detail")


async def broken_page(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret detail")


api = StrictAPI(urls_namespace="probe", auth=BearerAuth())
api.add_router("", router)

urlpatterns = [path("v1/", api.urls), path("broken", broken_page), *urls.urlpatterns]
handler400, handler403, handler404, handler500 = urls.handler400, urls.handler403, urls.handler404, urls.handler500
