"""Owns what the page asks about its user and the models on offer."""

from collections.abc import Sequence

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Router

from streaming import ownership
from streaming.engine.registry import engine_for
from streaming.models import Engine
from streaming.ownership.constraints import can_call
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
    """The models that a conversation of the user can use; the first is the one that answers where none is chosen."""
    owner = ownership.current()
    allowed = await owner.quotas.allowed(caller(request).user.pk, None)
    rows = await sync_to_async(engines.enabled, thread_sensitive=True)()
    by_model: dict[str, list[Engine]] = {}
    for row in rows:
        by_model.setdefault(row.model, []).append(row)
    names = owner.pool.answering_first(name for name in by_model if allowed.has(name))
    return ModelsOut(data=[_model(name, by_model[name]) for name in names])


def _model(name: str, rows: Sequence[Engine]) -> ModelOut:
    """What all engines of a model can: any of them may be asked."""
    calls_tools = all(can_call(engine_for(row), row.options) for row in rows)
    return ModelOut(id=name, context_tokens=min(row.context_tokens for row in rows), calls_tools=calls_tools)
