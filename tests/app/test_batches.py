"""Batches as rows: made, listed, cancelled, worked at by one alone, by their key's rights, and gone with their user."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from streaming.models import ApiKey, AuditEntry, Batch, Engine, FilePiece, Response, StoredFile
from streaming.store import batch_work, batches, files, task_tokens
from streaming.store.batch_work import Keep, LostLease, Result
from streaming.tasks import batches as task
from streaming.tasks.retention import remove_files
from tests.app.batch_rows import CHAT, LEASE, MARKER, batch_of, begun, file_of, line, taken
from tests.app.conftest import Page
from tests.app.test_files import on_disk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api1(u1, key1):
    return Client(headers={"Authorization": f"Bearer {key1}"}, raise_request_exception=False)


def ask(api, **fields):
    body = {"endpoint": CHAT, "completion_window": "24h", **fields}
    return api.post("/v1/batches", body, content_type="application/json")


def test_a_batch_is_made_of_a_file_with_the_key_that_asked(api1, u1, key):
    file = file_of(u1, line())
    made = ask(api1, input_file_id=file.id, metadata={"night": "monday"}).json()
    assert (made["object"], made["status"], made["input_file_id"]) == ("batch", "validating", file.id)
    assert made["expires_at"] - made["created_at"] == 86_400
    assert made["metadata"] == {"night": "monday"}
    assert made["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert Batch.objects.get().api_key == key
    assert api1.get(f"/v1/batches/{made['id']}").json() == made
    assert api1.get("/v1/batches").json()["data"] == [made]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("endpoint", "/v1/embeddings", "endpoint: "),
        ("completion_window", "1h", "completion_window: "),
        ("metadata", {"n": "x" * 513}, "metadata.n: "),
        ("metadata", {str(n): "x" for n in range(17)}, "metadata: "),
        ("api_base", "http://127.0.0.1", "api_base: unknown field"),
        ("input_file_id", 7, "input_file_id: "),
        ("output_expires_after", {"anchor": "created_at", "seconds": 3599}, "output_expires_after.seconds: "),
        ("output_expires_after", {"anchor": "created_at", "seconds": 2_592_001}, "output_expires_after.seconds: "),
        ("output_expires_after", {"anchor": "created_at", "seconds": "3600"}, "output_expires_after.seconds: "),
        ("output_expires_after", {"anchor": "completed_at", "seconds": 3600}, "output_expires_after.anchor: "),
        ("output_expires_after", {"seconds": 3600}, "output_expires_after.anchor: "),
        ("output_expires_after", 3600, "output_expires_after: "),
    ],
)
def test_a_body_that_is_wrong_is_told_its_field(api1, u1, field, value, said):
    answer = ask(api1, **{"input_file_id": file_of(u1, line()).id, field: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(said)
    assert not Batch.objects.exists()


def test_only_a_file_of_ones_own_that_was_sent_for_a_batch_is_taken(api1, u1, u2):
    written = file_of(u1, line())
    StoredFile.objects.filter(pk=written.pk).update(purpose="batch_output")
    for wrong in (file_of(u2, line()).id, written.id, "file-" + "0" * 26, "x" * 500):
        answer = ask(api1, input_file_id=wrong)
        assert (answer.status_code, answer.json()["error"]["param"]) == (404, "input_file_id")


def test_unfinished_batches_of_a_user_are_capped(api1, u1, u2, settings):
    settings.BATCHES_PER_USER = 1
    batch_of(u2)
    file = file_of(u1, line())
    assert ask(api1, input_file_id=file.id).status_code == 200
    answer = ask(api1, input_file_id=file.id)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
    Batch.objects.update(status="completed")
    assert ask(api1, input_file_id=file.id).status_code == 200


def test_the_list_is_read_page_by_page_and_holds_only_ones_own(api1, u1, u2):
    ids = [batch_of(u1).id for _ in range(3)][::-1]
    batch_of(u2)
    first = api1.get("/v1/batches?limit=2").json()
    assert ([row["id"] for row in first["data"]], first["has_more"]) == (ids[:2], True)
    rest = api1.get(f"/v1/batches?after={first['last_id']}").json()
    assert ([row["id"] for row in rest["data"]], rest["has_more"]) == (ids[2:], False)
    assert api1.get("/v1/batches?after=file-1").status_code == 400


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"nonsense\n", (1, "invalid_json_line")),
        (b"\xef\xbb\xbf" + line(), (1, "invalid_json_line")),
        (line() + line(), (2, "duplicate_custom_id")),
        (line() + b"[" * 100_000 + b"\n", (2, "invalid_json_line")),
        (line("\0"), (1, "invalid_json_line")),
        (line("\ud800"), (1, "invalid_json_line")),
        (line().replace(b"a", b"\x00"), (1, "invalid_json_line")),
        (line(pad="x" * 2**21), (1, "line_too_long")),
        (b"\r\n\n", (None, "empty_file")),
        (bytes(range(256)) * 100, (1, "invalid_json_line")),
    ],
)
def test_a_hostile_file_fails_with_the_line_and_nothing_is_asked(u1, api1, data, fault):
    batch = batch_of(u1, data)
    assert task.work_batches() == 1
    shown = api1.get(f"/v1/batches/{batch.id}").json()
    assert (shown["status"], shown["output_file_id"], shown["error_file_id"]) == ("failed", None, None)
    assert shown["failed_at"] >= shown["created_at"]
    first = shown["errors"]["data"][0]
    assert (first["line"], first["code"]) == fault
    assert not Response.objects.exists()
    assert task.work_batches() == 0


@pytest.mark.parametrize("data", [line("a").strip(), line("a").replace(b"\n", b"\r\n"), b"\n\n" + line("a")])
def test_ends_of_lines_are_no_fault(u1, key, data, monkeypatch):
    monkeypatch.setattr(task, "TURN_S", 0.3)
    batch = batch_of(u1, data, key)
    task.work_batches()  # nobody listens where the site should be
    batch.refresh_from_db()
    assert (batch.status, batch.total, batch.errors, batch.worker) == ("in_progress", 1, [], "")


def test_two_workers_never_have_the_same_batch_nor_more_than_there_are_slots(u1):
    first, second, third = (batch_of(u1) for _ in range(3))
    assert [one and one.id for one in (taken(2), taken(2), taken(2))] == [first.id, second.id, None]
    batch_work.release(Batch.objects.get(id=first.id), timedelta(0))
    assert taken(2).id == third.id, "who waits longest comes first"
    assert sorted(Batch.objects.filter(slot__isnull=False).values_list("slot", flat=True)) == [0, 1]


def test_a_batch_that_rests_has_no_turn_before_its_time(u1):
    batch = batch_of(u1)
    batch_work.release(batch, timedelta(seconds=60))
    assert taken() is None


def test_a_worker_that_lost_its_batch_writes_nothing_more(u1):
    late = begun(u1)
    batch_work.write(late, [Result(1, b"one\n", is_error=False)])
    Batch.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    new = batch_work.take("another", 1, LEASE)
    assert (new.id, batch_work.written(new)) == (late.id, {1})
    for writes in (
        lambda: batch_work.write(late, [Result(2, b"two\n", is_error=False)]),
        lambda: batch_work.finish(late, Batch.Status.COMPLETED, Keep(None, None)),
        lambda: batch_work.renew(late, LEASE),
        lambda: batch_work.begin(late, 3, no_store=False),
    ):
        with pytest.raises(LostLease):
            writes()
    batch_work.release(late, timedelta(0))
    new.refresh_from_db()
    assert (new.worker, new.completed, new.status, batch_work.written(new)) == ("another", 1, "in_progress", {1})


def test_an_end_makes_files_of_what_was_written_and_none_of_what_was_not(u1, api1):
    batch = begun(u1)
    batch_work.write(batch, [Result(2, b"two\n", is_error=False)])
    batch_work.write(batch, [Result(1, b"one\n", is_error=False), Result(3, b"three\n", is_error=False)])
    shown = api1.get(f"/v1/batches/{batch.id}").json()
    assert (shown["output_file_id"], shown["request_counts"]["completed"]) == (None, 3)
    assert [row["purpose"] for row in api1.get("/v1/files").json()["data"]] == ["batch"]
    batch_work.finish(batch, Batch.Status.COMPLETED, Keep(timedelta(days=1), None))
    shown = api1.get(f"/v1/batches/{batch.id}").json()
    assert (shown["status"], shown["error_file_id"]) == ("completed", None)
    assert b"".join(files.content(shown["output_file_id"])) == b"one\ntwo\nthree\n"
    file = api1.get(f"/v1/files/{shown['output_file_id']}").json()
    assert (file["bytes"], file["expires_at"] - shown["completed_at"]) == (14, 86_400)
    assert StoredFile.objects.count() == 2


@pytest.mark.parametrize(
    ("asked_s", "ttl_days", "no_store", "kept_s"),
    [
        (3600, 30, False, 3600),
        (2_592_000, 30, False, 2_592_000),
        (2_592_000, 1, False, 86_400),
        (3600, 0, False, 3600),
        (None, 0, False, None),
        (3600, 30, True, 3600),
        (2_592_000, 0, True, 86_400),
    ],
)
def test_what_a_batch_wrote_goes_so_long_after_its_making_as_was_asked_and_never_later_than_the_site_says(
    u1, api1, key, settings, asked_s, ttl_days, no_store, kept_s
):
    settings.FILE_TTL_DAYS = ttl_days
    policy = {"output_expires_after": {"anchor": "created_at", "seconds": asked_s}} if asked_s else {}
    made = ask(api1, input_file_id=file_of(u1, line("1") + line("2", body={"model": "m"})).id, **policy).json()
    batch = batch_work.begin(taken(), 2, no_store=no_store)
    StoredFile.objects.filter(purpose="batch_output").update(created_at=timezone.now() - timedelta(hours=5))
    batch_work.write(batch, [Result(1, b"one\n", is_error=False), Result(2, b"two\n", is_error=True)])
    batch_work.release(batch, timedelta(0))
    task.work_batches()
    shown = api1.get(f"/v1/batches/{made['id']}").json()
    for name in ("output_file_id", "error_file_id"):
        file = api1.get(f"/v1/files/{shown[name]}").json()
        assert file["created_at"] == shown["completed_at"]
        assert file["expires_at"] == (file["created_at"] + kept_s if kept_s else None)


def test_a_cancel_before_any_work_ends_it_and_one_after_the_end_changes_nothing(u1, api1):
    batch = batch_of(u1)
    assert api1.post(f"/v1/batches/{batch.id}/cancel").json()["status"] == "cancelling"
    task.work_batches()
    shown = api1.get(f"/v1/batches/{batch.id}").json()
    assert (shown["status"], shown["output_file_id"]) == ("cancelled", None)
    assert api1.post(f"/v1/batches/{batch.id}/cancel").json() == shown


def test_a_cancel_stops_the_batchs_answers_and_no_others(u1):
    batch, other = begun(u1), batch_of(u1)
    for key in (f"{batch.id}.1", f"{batch.id}.12.1", f"{other.id}.1", "mine"):
        purpose = "api" if key == "mine" else "batch"
        Response.objects.create(
            user=u1, purpose=purpose, dialect="openai_chat", model="m", policy="background", idempotency_key=key
        )
    batches.cancel(batch.id, "api")
    stopped = Response.objects.filter(stop_requested_at__isnull=False)
    assert set(stopped.values_list("idempotency_key", "stop_reason")) == {
        (f"{batch.id}.1", "api"), (f"{batch.id}.12.1", "api"),
    }  # fmt: skip


def test_a_batchs_input_neither_goes_nor_expires_before_its_end(u1, api1):
    batch = batch_of(u1)
    StoredFile.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    assert remove_files() == 0
    StoredFile.objects.update(expires_at=None)
    answer = api1.delete(f"/v1/files/{batch.input_file_id}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "file_in_use")
    Batch.objects.update(status="completed")
    assert api1.delete(f"/v1/files/{batch.input_file_id}").json()["deleted"]


def test_old_batches_go_after_their_files(u1):
    old = timezone.now() - timedelta(days=31)
    with_file, without, unfinished = (batch_of(u1, status=s, created_at=old) for s in ("completed",) * 2 + ("expired",))
    Batch.objects.filter(id=with_file.id).update(output_file_id=with_file.input_file_id)
    Batch.objects.filter(id=unfinished.id).update(status="in_progress")
    assert remove_files() == 1
    assert set(Batch.objects.values_list("id", flat=True)) == {with_file.id, unfinished.id}
    assert not Batch.objects.filter(id=without.id).exists()


def test_a_user_who_goes_amid_a_batch_takes_every_word_along_and_its_worker_writes_none(u1, u2):
    batch = begun(u1)
    batch_work.write(batch, [Result(1, MARKER.encode() * 9, is_error=False), Result(2, MARKER.encode(), is_error=True)])
    Batch.objects.update(metadata={MARKER: MARKER}, errors=[{"message": MARKER}])
    other = batch_of(u2, b"other")
    if connection.vendor == "sqlite":
        assert MARKER.encode() in on_disk()
    u1.delete()
    with pytest.raises(LostLease):
        batch_work.write(batch, [Result(3, MARKER.encode(), is_error=False)])
    assert [row.id for row in Batch.objects.all()] == [other.id]
    assert set(FilePiece.objects.values_list("file_id", flat=True)) == {other.input_file_id}
    if connection.vendor == "sqlite":
        assert MARKER.encode() not in on_disk()


def with_token(key, path=CHAT, user=None):
    token = task_tokens.issue(user or key.user_id, "batch", key.pk)
    client = Client(headers={"Authorization": f"Bearer {token}"}, raise_request_exception=False)
    body = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
    answer = client.post(path, body, content_type="application/json")
    return answer.status_code, answer.json()["error"]["code"]


def test_a_line_is_asked_with_the_rights_that_its_key_has_now(u1, key):
    allowed = (404, "model_not_found")
    assert with_token(key) == allowed
    assert with_token(key, "/v1/files")[0] == with_token(key, "/v1/batches")[0] == 401
    for change, back, refused in (
        ({"scopes": "responses:read"}, {"scopes": "responses:write"}, (403, "scope")),
        ({"expires_at": timezone.now()}, {"expires_at": None}, (401, "key_expired")),
        ({"revoked_at": timezone.now()}, {"revoked_at": None}, (401, "key_revoked")),
    ):
        ApiKey.objects.filter(pk=key.pk).update(**change)
        assert with_token(key) == refused
        ApiKey.objects.filter(pk=key.pk).update(**back)
        assert with_token(key) == allowed
    u1.is_active = False
    u1.save()
    assert with_token(key) == (401, "key_revoked")
    ApiKey.objects.filter(pk=key.pk).delete()
    assert with_token(key) == (401, "invalid_api_key")


def test_a_refusal_for_good_is_a_row_by_the_key_and_the_purpose_and_one_for_now_is_none(u1, key, engine):
    Engine.objects.update(model="other")
    with_token(key)
    stored = Response.objects.get()
    assert (stored.purpose, stored.api_key, stored.end_state) == ("batch", key, "rejected")
    Engine.objects.update(model="demo", drain_started_at=timezone.now())
    assert with_token(key) == (503, "overloaded")
    assert Response.objects.count() == 1


def test_titles_have_no_key_and_batches_nothing_without_one(u1):
    with pytest.raises(ValueError, match="no task asks for 'api'"):
        task_tokens.issue(u1.pk, "api")
    assert task_tokens.redeem(task_tokens.issue(u1.pk, "title"), CHAT).key is None
    assert task_tokens.redeem(task_tokens.issue(u1.pk, "batch"), CHAT) is None


def staff(role):
    user = User.objects.create_user(f"a-{role}", is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    return Page(user)


def test_staff_sees_how_far_batches_are_and_nothing_of_what_is_in_them(u1):
    call_command("migrate", verbosity=0)
    batch = batch_of(u1, metadata={MARKER: MARKER}, errors=[{"message": MARKER}], failed=7)
    viewer = staff("viewer")
    for path in ("", f"{batch.id}/change/"):
        shown = viewer.get(f"/admin/streaming/batch/{path}").content.decode()
        assert batch.id in shown
        assert MARKER not in shown
    assert viewer.get("/admin/streaming/batch/?metadata__contains=x").status_code in (302, 400)


def test_an_operator_cancels_batches_which_is_noted_and_a_viewer_does_not(u1):
    call_command("migrate", verbosity=0)
    batch, ended = batch_of(u1), batch_of(u1, status="completed")
    form = {"action": "cancel_selected", "_selected_action": [batch.id, ended.id]}
    staff("viewer").post("/admin/streaming/batch/", form)
    assert not Batch.objects.filter(status="cancelling").exists()
    staff("operator").post("/admin/streaming/batch/", form)
    assert {b.id: b.status for b in Batch.objects.all()} == {batch.id: "cancelling", ended.id: "completed"}
    [entry] = AuditEntry.objects.filter(action="cancelled")
    assert (entry.actor, entry.target_kind, entry.target_id) == ("a-operator", "batch", batch.id)


def test_a_worker_whose_own_clock_is_half_a_minute_ahead_takes_no_batch_from_one_that_works(u1, key, monkeypatch):
    """It is the database's clock that says how old a lease is."""
    batch = begun(u1, 1, key)
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + timedelta(seconds=30))
    assert batch_work.take("elsewhere", 2, LEASE) is None
    assert batch_work.renew(batch, LEASE).worker == batch.worker


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=1)])
def test_a_batch_goes_on_when_the_clock_is_set_back_under_its_rest_or_its_dead_worker(u1, key, ahead):
    batch = begun(u1, 1, key)
    Batch.objects.update(lease_until=timezone.now() + ahead)
    taken = batch_work.take("another", 1, LEASE)
    assert taken
    assert taken.id == batch.id
    batch_work.release(taken, timedelta(0))
    Batch.objects.update(due_at=timezone.now() + ahead)
    assert batch_work.take("a third", 1, LEASE)
