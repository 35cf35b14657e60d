"""Owns files in the database: kept in pieces, read page by page, removed. Knows neither forms nor lines."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum, Value
from django.db.models.functions import Greatest, Length
from django.utils import timezone

from streaming.models import Batch, FilePiece, StoredFile

from . import paging

ID_FORMAT = re.compile(r"file-[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)
PIECE_BYTES = 64 * 1024
#: Pieces of a transaction: about a mebibyte, for which SQLite lets nobody else write.
PIECES_AT_ONCE = 16
#: A page that is read holds about so many bytes, and at least one piece.
PAGE_BYTES = 256 * 1024
PAGE_PIECES = 256
#: A file takes up at least so much of what its user may have: rows are no smaller, and their number has an end too.
LEAST_BYTES = 4096
#: An upload that is not whole after so long never will be.
UPLOAD_MAX = timedelta(hours=1)


class NoRoom(Exception):
    """The user's files would have more bytes than they may; the message says how many there are."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """What a file is made with. ``size_bytes`` is what its pieces will have together; None is kept for ever."""

    user_id: int
    filename: str
    size_bytes: int
    keep: timedelta | None


def shortest(*periods: timedelta | None) -> timedelta | None:
    """The shortest of several periods, where None is for ever."""
    return min((period for period in periods if period is not None), default=None)


def store(new: NewFile, pieces: Iterable[bytes], user_bytes_max: int) -> StoredFile:
    """Keep an input file; it is seen once it is whole. Raises NoRoom, and User.DoesNotExist for one who is gone."""
    file = _reserve(new, user_bytes_max)
    try:
        rows = (FilePiece(file=file, seq=seq, data=data) for seq, data in enumerate(pieces, 1))
        while some := list(islice(rows, PIECES_AT_ONCE)):
            FilePiece.objects.bulk_create(some)
        StoredFile.objects.filter(pk=file.pk).update(is_whole=True)
    except IntegrityError as error:
        raise User.DoesNotExist from error
    except BaseException:
        remove(StoredFile.objects.filter(pk=file.pk))
        raise
    return file


def _reserve(new: NewFile, user_bytes_max: int) -> StoredFile:
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=new.user_id)  # two at once are counted one after the other
        counted = Sum(Greatest("size_bytes", Value(LEAST_BYTES)))
        stored = StoredFile.objects.filter(user_id=new.user_id).aggregate(sum=counted)["sum"] or 0
        if stored + max(new.size_bytes, LEAST_BYTES) > user_bytes_max:
            raise NoRoom(
                f"file: your files may have {user_bytes_max} bytes together, each counted as {LEAST_BYTES} or more;"
                f" they have {stored}, this one {new.size_bytes}"
            )
        now = timezone.now()
        return StoredFile.objects.create(
            user_id=new.user_id,
            purpose=StoredFile.Purpose.BATCH,
            filename=new.filename,
            size_bytes=new.size_bytes,
            created_at=now,
            expires_at=now + new.keep if new.keep is not None else None,
        )


def _seen() -> QuerySet[StoredFile]:
    unexpired = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    return StoredFile.objects.filter(unexpired, is_whole=True)


def get(file_id: str, user_id: int) -> StoredFile | None:
    """The user's file, or None for an unknown one, an expired one and somebody else's alike."""
    if not ID_FORMAT.fullmatch(file_id):
        return None
    return _seen().filter(id=file_id, user_id=user_id).first()


def page(
    user_id: int, *, purpose: str | None, after: str | None, limit: int, latest_first: bool
) -> tuple[list[StoredFile], bool]:
    """Some of the user's files behind the id ``after``, and whether there are more."""
    rows = _seen().filter(user_id=user_id)
    if purpose is not None:
        rows = rows.filter(purpose=purpose)
    return paging.page(rows, after, limit, latest_first=latest_first)


def pieces_after(file_id: str, seq: int) -> list[tuple[int, bytes]]:
    """The next page of a file: pieces behind one, as many as PAGE_BYTES hold; none at its end."""
    rows = FilePiece.objects.filter(file_id=file_id, seq__gt=seq).order_by("seq")
    last, size = seq, 0
    for number, length in rows.values_list("seq", Length("data"))[:PAGE_PIECES]:
        size += length
        if last > seq and size > PAGE_BYTES:
            break
        last = number
    return [(number, bytes(data)) for number, data in rows.filter(seq__lte=last).values_list("seq", "data")]


def content(file_id: str) -> Iterator[bytes]:
    """All of a file, a page in memory at a time."""
    seq = 0
    while found := pieces_after(file_id, seq):
        for seq, data in found:  # noqa: B007  where the next page begins
            yield data


def remove(files: QuerySet[StoredFile]) -> int:
    """Remove files with all that is in them. Returns how many there were."""
    with transaction.atomic():
        ids = list(files.select_for_update().order_by("id").values_list("id", flat=True))
        FilePiece.objects.filter(file_id__in=ids).delete()
        StoredFile.objects.filter(id__in=ids).delete()
    return len(ids)


def due(now: datetime, limit: int) -> QuerySet[StoredFile]:
    """Files whose time is over and that no batch reads, and uploads that broke off: some of them."""
    broken_off = Q(is_whole=False, purpose=StoredFile.Purpose.BATCH, created_at__lt=now - UPLOAD_MAX)
    reading = Batch.objects.filter(input_file_id=OuterRef("pk"), status__in=Batch.UNFINISHED)
    over = StoredFile.objects.filter(Q(expires_at__lt=now) | broken_off).exclude(Exists(reading))
    return StoredFile.objects.filter(id__in=list(over.values_list("id", flat=True)[:limit]))
