"""Owns the admin page of engines: the one kind of row that is configured by hand; draining and testing one."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from streaming.models import Engine, EngineReading
from streaming.ownership.trials import test_now
from streaming.store import engines as store

from .deletion import DeletedInSteps
from .engine_form import EngineForm

#: Each takes a second or, where nobody answers, a quarter of a minute.
TESTED_AT_ONCE = 5


@admin.register(Engine)
class EngineAdmin(DeletedInSteps):
    """Where models are served. Secrets stand in the environment, not here."""

    form = EngineForm
    change_form_template = "admin/streaming/engine/change_form.html"
    list_display = ["name", "kind", "model", "context_tokens", "slots", "service", "probed_at", "url"]
    list_filter = ["kind", "enabled", ("drain_started_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "model"]
    ordering = ["name"]
    readonly_fields = ["service", "drain_started_at", "capabilities", "probed_at"]
    fields = [*EngineForm.Meta.fields, *readonly_fields]
    actions = ["drain", "give_back", "test"]
    goes_along: ClassVar = {EngineReading: "engine"}

    def before_deletion(self, obj: Engine) -> None:
        store.take_off(obj)

    @admin.display(description="service")
    def service(self, engine: Engine) -> str:
        """Whether it gets requests."""
        if not engine.enabled:
            return "disabled"
        since = engine.drain_started_at
        return f"drained since {since:%Y-%m-%d %H:%M:%S} UTC" if since else "in service"

    @admin.action(description="Drain the selected engines", permissions=["operate"])
    def drain(self, request: HttpRequest, queryset: QuerySet[Engine]) -> None:
        """They take nothing new; what runs there ends or moves to another engine."""
        for engine in queryset:
            if store.drain(engine.pk):
                self._did(request, engine, "drained: takes nothing new, what runs there ends or moves")

    @admin.action(description="Return the selected engines to service", permissions=["operate"])
    def give_back(self, request: HttpRequest, queryset: QuerySet[Engine]) -> None:
        """They take requests again."""
        for engine in queryset:
            if store.give_back(engine.pk):
                self._did(request, engine, "back in service")

    @admin.action(description="Test the selected engines now", permissions=["operate"])
    def test(self, request: HttpRequest, queryset: QuerySet[Engine]) -> None:
        """One token each, really generated, with a row of purpose probe."""
        if queryset.count() > TESTED_AT_ONCE:
            message = f"At most {TESTED_AT_ONCE} engines are tested at once; {queryset.count()} were selected."
            self.message_user(request, message, messages.ERROR)
            return
        for engine in queryset:
            self._test(request, engine)

    def _test(self, request: HttpRequest, engine: Engine) -> None:
        tested = test_now(engine)
        response = tested.response
        row = reverse("admin:streaming_response_change", args=[quote(response.pk)]) if response else ""
        if tested.trouble:
            said, level = f"no token: {tested.trouble}", messages.ERROR
        else:
            said, level = f"a token after {tested.first_token_ms:.0f} ms", messages.SUCCESS
        link = format_html(' (<a href="{}">{}</a>)', row, response.pk) if response else ""
        self.message_user(request, format_html("Engine {}: {}{}", engine.name, said, link), level)
        self.log_change(request, engine, f"Tested: {said}")

    def _did(self, request: HttpRequest, engine: Engine, what: str) -> None:
        self.message_user(request, f"Engine {engine.name}: {what}", messages.SUCCESS)
        self.log_change(request, engine, what)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if form.dropped_key:
            message = (
                "The host has changed, so the name of the key was dropped. Enter api_key_env again to send it there."
            )
            self.message_user(request, message, messages.WARNING)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Draining and testing change no row's settings: operators may."""
        return request.user.has_perm("streaming.operate_engine")

    def get_urls(self) -> list[URLPattern]:
        """A page of its own for each button: saving a row happens in a transaction, and a test must not."""
        view = self.admin_site.admin_view(require_POST(self.act))
        own = path("<int:pk>/<slug:what>/now/", view, name="streaming_engine_act")
        return [own, *super().get_urls()]

    def act(self, request: HttpRequest, pk: int, what: str) -> HttpResponse:
        """One of the actions, for one engine."""
        doing: dict[str, Callable[[HttpRequest, QuerySet[Engine]], None]] = {
            "drain": self.drain,
            "give-back": self.give_back,
            "test": self.test,
        }
        get_object_or_404(Engine, pk=pk)
        if what not in doing or not self.has_operate_permission(request):
            raise PermissionDenied
        doing[what](request, Engine.objects.filter(pk=pk))
        return HttpResponseRedirect(reverse("admin:streaming_engine_change", args=[pk]))
