"""Owns the three roles of staff as groups: viewer, operator, owner. Made anew after each migration; checks nobody."""

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.db.models import Q

VIEWER, OPERATOR, OWNER = ROLES = ("viewer", "operator", "owner")
#: What an operator may do to what runs.
OPERATES = ("stop_response", "operate_engine", "cancel_batch")
#: Who did what is not for those whom it is about; who somebody is elsewhere concerns whom people concern.
OWNERS_ONLY = ("view_auditentry", "view_identity")
#: An owner makes and changes people; deleting one takes everything of theirs along, which is a superuser's.
PEOPLE = ("view_user", "add_user", "change_user")


def make_roles(**signal: Any) -> None:
    """Give each role exactly its permissions. Who wants others makes a group of another name."""
    ours = Permission.objects.filter(content_type__app_label="streaming")
    looks = ours.filter(codename__startswith="view_").exclude(codename__in=OWNERS_ONLY)
    people = Q(content_type__app_label="auth", codename__in=PEOPLE)
    may = {
        VIEWER: set(looks),
        OPERATOR: set(looks) | set(ours.filter(codename__in=OPERATES)),
        OWNER: set(Permission.objects.filter(people | Q(content_type__app_label="streaming"))),
    }
    for name, permissions in may.items():
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.set(permissions)
