"""Files for batches: what is taken, what is refused and how, whose they are, and that nothing of them is left."""

import asyncio
import io
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.utils import timezone

from chatsite.django_handler import DjangoHandler
from streaming.api.files import FileHandover, Vanished
from streaming.models import FilePiece, StoredFile
from streaming.store import access, erasure, files
from streaming.tasks.retention import remove_files

pytestmark = pytest.mark.django_db(transaction=True)

MARKER = b"Xylophone-Quaternion-7391"


@pytest.fixture
def api1(u1):
    return Client(headers={"Authorization": f"Bearer {access.issue_key(u1)}"}, raise_request_exception=False)


@pytest.fixture
def api2(u2):
    return Client(headers={"Authorization": f"Bearer {access.issue_key(u2)}"}, raise_request_exception=False)


def send(api, data=b"{}\n", name="in.jsonl", **fields):
    return api.post("/v1/files", {"purpose": "batch", "file": SimpleUploadedFile(name, data), **fields})


def stored(user, data=b"", **fields):
    """A file as it stands after an upload, or after a batch has written it."""
    new = files.NewFile(user.pk, "in.jsonl", len(data), None)
    file = files.store(new, [data[at : at + 1000] for at in range(0, len(data), 1000)], 2**40)
    StoredFile.objects.filter(pk=file.pk).update(**fields)
    return file


def pages_of(file):
    async def read():
        handover = FileHandover(file)
        return [page async for page in await handover.opening()]

    return asyncio.run(read())


def test_what_is_sent_is_what_is_kept(api1, u1):
    data = bytes(range(256)) * 700 + b"\n"
    made = send(api1, data, name="my lines.jsonl").json()
    assert (made["object"], made["bytes"], made["purpose"]) == ("file", len(data), "batch")
    assert (made["filename"], made["status"]) == ("my lines.jsonl", "processed")
    assert api1.get(f"/v1/files/{made['id']}").json() == made
    file = StoredFile.objects.get()
    assert b"".join(files.content(file.id)) == data
    assert b"".join(pages_of(file)) == data
    assert made["expires_at"] - made["created_at"] == 30 * 86_400


def test_a_file_may_ask_to_go_sooner(api1):
    asked = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    made = send(api1, **asked).json()
    assert made["expires_at"] - made["created_at"] == 3600


def test_a_file_stays_to_the_second_as_long_as_it_says_however_slow_a_machine_is(api1, monkeypatch):
    now, looks = timezone.now(), count()
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(seconds=next(looks)))
    made = send(api1, **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}).json()
    assert made["expires_at"] - made["created_at"] == 3600


def test_a_file_that_asks_to_stay_longer_than_the_site_keeps_files_goes_with_the_others(api1, settings):
    settings.FILE_TTL_DAYS = 2
    made = send(api1, **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "2592000"}).json()
    assert made["expires_at"] - made["created_at"] == 2 * 86_400


@pytest.mark.parametrize(
    ("form", "param", "said"),
    [
        ({"purpose": "fine-tune"}, "purpose", "only batch (got 'fine-tune')"),
        ({"purpose": ["batch", "batch"]}, "purpose", "only once (got 2)"),
        ({"colour": "red"}, "colour", "unknown field"),
        ({"image": io.BytesIO(b"x")}, "image", "unknown field"),
        ({"file": "text"}, "file", "unknown field"),
        ({"file": SimpleUploadedFile("x", b"")}, "file", "it is empty"),
        ({"expires_after[seconds]": "9"}, "expires_after[anchor]", "only created_at (got nothing)"),
        (
            {"expires_after[anchor]": "created_at", "expires_after[seconds]": "9"},
            "expires_after[seconds]",
            "a number from 3600 to 2592000 (got '9')",
        ),
    ],
)
def test_a_form_that_is_wrong_is_told_its_field(api1, form, param, said):
    whole = {"purpose": "batch", "file": SimpleUploadedFile("in.jsonl", b"{}"), **form}
    answer = api1.post("/v1/files", whole)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert said in error["message"]
    assert not StoredFile.objects.exists()


def test_a_form_without_a_file_and_what_is_no_form_are_refused(api1):
    assert api1.post("/v1/files", {"purpose": "batch"}).json()["error"]["message"] == "file: exactly one file (got 0)"
    answer = api1.post("/v1/files", {"purpose": "batch"}, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media_type")
    broken = api1.post("/v1/files", b"--x", content_type="multipart/form-data")
    assert broken.status_code == 400


def test_one_byte_and_one_line_over_the_caps_are_told_limit_and_value(api1, settings):
    settings.BATCH_FILE_BYTES, settings.BATCH_FILE_LINES = 100, 3
    assert send(api1, b"x" * 100).status_code == 200
    answer = send(api1, b"x" * 101)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "file_too_large")
    assert answer.json()["error"]["message"] == "file: at most 100 bytes (got 101)"
    assert send(api1, b"1\n2\n3").status_code == send(api1, b"1\n2\n3\n").status_code == 200
    for data in (b"1\n2\n3\n4", b"\n\n\n\n"):
        assert send(api1, data).json()["error"]["message"] == "file: at most 3 lines (got 4)"


def test_all_files_of_a_user_together_are_capped(api1, api2, settings):
    settings.FILES_BYTES_PER_USER = 10_000
    first = send(api1, b"x" * 6000).json()["id"]
    answer = send(api1, b"x" * 5000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "files_too_large")
    assert "may have 10000 bytes together" in answer.json()["error"]["message"]
    assert "they have 6000, this one 5000" in answer.json()["error"]["message"]
    assert send(api2, b"x" * 5000).status_code == 200
    api1.delete(f"/v1/files/{first}")
    assert send(api1, b"x" * 5000).status_code == 200


def test_very_small_files_are_capped_by_their_number(api1, settings):
    settings.FILES_BYTES_PER_USER = 3 * files.LEAST_BYTES
    assert [send(api1, b"x").status_code for _ in range(4)] == [200, 200, 200, 413]


def test_names_are_never_more_than_text(api1):
    made = send(api1, name="../../etc/pass\u202ewd\x1b.jsonl").json()
    assert made["filename"] == "passwd.jsonl"


@pytest.mark.parametrize(("method", "path"), [("get", ""), ("get", "/content"), ("delete", "")])
def test_anothers_file_is_like_one_that_there_is_not(api2, u1, method, path):
    file = stored(u1, b"mine")
    theirs = getattr(api2, method)(f"/v1/files/{file.id}{path}")
    unknown = getattr(api2, method)(f"/v1/files/file-{'0' * 26}{path}")
    assert (theirs.status_code, theirs.content) == (unknown.status_code, unknown.content)
    assert theirs.status_code == 404
    assert b"".join(files.content(file.id)) == b"mine"


def test_the_list_is_read_page_by_page_and_holds_only_ones_own(api1, api2, u1, u2):
    ids = [stored(u1).id for _ in range(5)]
    stored(u2)
    stored(u1, is_whole=False)
    stored(u1, expires_at=timezone.now() - timedelta(seconds=1))
    first = api1.get("/v1/files?limit=2").json()
    assert ([row["id"] for row in first["data"]], first["has_more"]) == ([ids[4], ids[3]], True)
    second = api1.get(f"/v1/files?limit=3&after={first['last_id']}").json()
    assert ([row["id"] for row in second["data"]], second["has_more"]) == ([ids[2], ids[1], ids[0]], False)
    assert [row["id"] for row in api1.get("/v1/files?order=asc").json()["data"]] == ids
    assert api1.get("/v1/files?purpose=batch_output").json()["data"] == []
    for wrong in ("after=resp_1", "after=file-" + "0" * 99, "limit=0", "order=up"):
        assert api1.get(f"/v1/files?{wrong}").status_code == 400, wrong


def test_a_page_of_a_download_is_bounded_whatever_the_file(u1):
    file = stored(u1, b"")
    pieces = [FilePiece(file=file, seq=n, data=bytes([n % 251]) * 100_000) for n in range(1, 31)]
    FilePiece.objects.bulk_create(pieces)
    file.size_bytes = 3_000_000
    pages = pages_of(file)
    assert max(map(len, pages)) <= files.PAGE_BYTES
    assert b"".join(pages) == b"".join(piece.data for piece in pieces)


def test_a_file_that_goes_while_it_is_sent_does_not_end_well(u1):
    file = stored(u1, b"some")
    files.remove(StoredFile.objects.filter(pk=file.pk))
    with pytest.raises(Vanished):
        pages_of(file)


def test_an_upload_that_fails_half_way_leaves_nothing(u1):
    def broken():
        yield b"x" * files.PIECE_BYTES * 20
        raise ConnectionError

    with pytest.raises(ConnectionError):
        files.store(files.NewFile(u1.pk, "in.jsonl", 9, None), broken(), files.LEAST_BYTES)
    assert not StoredFile.objects.exists()
    assert not FilePiece.objects.exists()


def test_a_user_who_is_deleted_while_a_file_comes_keeps_nothing(u1):
    def meanwhile():
        yield b"one"
        User.objects.get(pk=u1.pk).delete()
        yield b"two"

    with pytest.raises(User.DoesNotExist):
        files.store(files.NewFile(u1.pk, "in.jsonl", 9, None), meanwhile(), files.LEAST_BYTES)
    assert not StoredFile.objects.exists()
    assert not FilePiece.objects.exists()


def test_files_go_when_their_time_is_over_and_uploads_that_broke_off_after_an_hour(u1):
    old = timezone.now() - timedelta(hours=2)
    kept = stored(u1, b"kept", expires_at=timezone.now() + timedelta(hours=1))
    stored(u1, b"gone", expires_at=old)
    stored(u1, b"half", is_whole=False, created_at=old)
    writing = stored(u1, b"fresh", is_whole=False)
    output = stored(u1, b"written", is_whole=False, created_at=old, purpose="batch_output")
    assert remove_files() == 2
    assert set(StoredFile.objects.values_list("id", flat=True)) == {kept.id, writing.id, output.id}
    assert set(FilePiece.objects.values_list("file_id", flat=True)) == {kept.id, writing.id, output.id}


def test_a_user_who_goes_takes_every_byte_of_their_files_along(u1, u2):
    stored(u1, MARKER * 9000, filename=MARKER.decode())
    other = stored(u2, b"other")
    if connection.vendor == "sqlite":
        assert MARKER in on_disk()
    u1.delete()
    assert [file.id for file in StoredFile.objects.all()] == [other.id]
    assert FilePiece.objects.exclude(file=other).count() == 0
    if connection.vendor == "sqlite":
        assert MARKER not in on_disk()


def on_disk() -> bytes:
    erasure.forget_on_disk()
    name = str(connection.settings_dict["NAME"])
    return b"".join(path.read_bytes() for path in map(Path, (name, f"{name}-wal")) if path.exists())


async def test_a_body_is_given_back_with_its_answer_and_not_when_somebody_looks_for_garbage(monkeypatch):
    handler, bodies, sent = DjangoHandler(), [], []
    create_request = handler.create_request
    monkeypatch.setattr(
        handler, "create_request", lambda scope, body: bodies.append(body) or create_request(scope, body)
    )
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/files",
        "query_string": b"",
        "headers": [(b"host", b"testserver")],
    }

    async def receive():
        return {"type": "http.request", "body": b"x" * 1000, "more_body": False}

    async def send(message):
        sent.append(message)

    await handler(scope, receive, send)
    assert sent[0]["status"] == 401
    assert [body.closed for body in bodies] == [True]
