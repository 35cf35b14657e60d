"""Owns what the page asks about its user and the models on offer."""

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Router

from streaming import ownership
from streaming.store import engines

from .auth import caller
from .schemas import ModelOut, ModelsOut, UserOut

router = Router()


@router.get("/me", response=UserOut)
async def me(request: HttpRequest) -> UserOut:
    """Who is logged in."""
    user = caller(request).user
    return UserOut(username=user.get_username(), is_staff=user.is_staff)


@router.get("/models", response=ModelsOut)
async def models(request: HttpRequest) -> ModelsOut:
    """The models that a conversation of the user can use."""
    allowed = await ownership.current().quotas.allowed(caller(request).user.pk, None)
    found = await sync_to_async(engines.served_models, thread_sensitive=True)()
    return ModelsOut(data=[ModelOut(id=name, context_tokens=context) for name, context in found if allowed.has(name)])
