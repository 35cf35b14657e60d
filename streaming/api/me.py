"""Owns what the page asks about its user and the models on offer."""

from collections.abc import Sequence

from django.http import HttpRequest
from ninja import Router

from streaming import ownership
from streaming.engine.registry import engine_for
from streaming.models import Engine
from streaming.ownership.constraints import can_call

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
    """The models that a conversation of the user can use; the first is the one that answers where none is chosen."""
    owner = ownership.current()
    allowed = await owner.quotas.allowed(caller(request).user.pk, None)
    offered = await owner.pool.on_offer()
    return ModelsOut(data=[_model(name, rows) for name, rows in offered.items() if allowed.has(name)])


def _model(name: str, rows: Sequence[Engine]) -> ModelOut:
    """What all engines of a model can: any of them may be asked."""
    calls_tools = all(can_call(engine_for(row), row.options) for row in rows)
    return ModelOut(id=name, context_tokens=min(row.context_tokens for row in rows), calls_tools=calls_tools)
