"""Owns the admin pages of users and groups. Nobody raises themselves here: what only a superuser may give, only a
superuser sees."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from streaming.models import ApiKey, Batch, Conversation, Response, StoredFile
from streaming.store import erasure

from .audit_trail import Audited
from .deletion import DeletedInSteps
from .roles import ROLES
from .used import used_lately

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PeopleAdmin(DeletedInSteps, UserAdmin):  # type: ignore[type-arg]
    """Who may come in, as what, and what they used."""

    list_display = ["username", "email", "roles", "is_active", "is_staff", "is_superuser", "last_login", "date_joined"]
    list_filter = ["is_active", "is_staff", "groups"]
    search_fields = ["username", "email"]
    ordering = ["username"]
    show_full_result_count = False
    list_per_page = 50
    readonly_fields = ["last_login", "date_joined", "used"]
    filter_horizontal = ()
    superuser_fields = ("is_superuser", "user_permissions")
    goes_along = dict.fromkeys((Conversation, Response, ApiKey, StoredFile, Batch), "user")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return super().get_fieldsets(request, obj)
        rights = ["is_active", "is_staff", "groups"]
        if request.user.is_superuser:
            rights += self.superuser_fields
        return [
            (None, {"fields": ["username", "password", "first_name", "last_name", "email"]}),
            ("Rights", {"fields": rights, "description": "viewer sees figures; operator stops and drains; owner changes"
                        " keys, quotas, engines and people. All three need “staff status”."}),
            ("Use", {"fields": ["used", "last_login", "date_joined"]}),
        ]  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.prefetch_related("groups")

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "groups" and not request.user.is_superuser:
            kwargs["queryset"] = Group.objects.filter(name__in=ROLES)
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A superuser's password is a superuser's to change."""
        if obj is not None and obj.is_superuser and not request.user.is_superuser:
            return False
        return super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nor is a superuser another's to delete."""
        if obj is not None and obj.is_superuser and not request.user.is_superuser:
            return False
        return super().has_delete_permission(request, obj)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only by its filters: an address could tell letter by letter what a hash is."""
        return lookup.split("__", maxsplit=1)[0] in self.list_filter and super().lookup_allowed(lookup, value, request)

    def before_deletion(self, obj: User) -> None:
        erasure.empty(obj)

    def hold(self, obj: User) -> None:
        erasure.hold(obj)

    @admin.display(description="roles")
    def roles(self, user: User) -> str:
        """The groups."""
        return ", ".join(sorted(group.name for group in user.groups.all())) or "–"

    @admin.display(description="last 30 days")
    def used(self, user: User) -> SafeString:
        """Sums of the daily rollups, and the way to the responses."""
        link = f"{reverse('admin:streaming_response_changelist')}?user={user.get_username()}"
        return format_html('{} · <a href="{}">Responses</a>', used_lately(user_id=user.pk), link)


@admin.register(Group)
class RolesAdmin(Audited, GroupAdmin):
    """Groups, of which three are the roles."""
