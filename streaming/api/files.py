"""Owns the routes of files: upload, list, retrieve, content, delete. The owner check is in store.files."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from streaming.models import StoredFile
from streaming.store import batches, files, threads

from . import file_form
from .auth import caller
from .errors import ApiError
from .file_lifetime import LEAST_S, MOST_S
from .lists import checked_after, listed

LIST_MAX = 1000
UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            file_form.FORM: {
                "schema": {
                    "type": "object",
                    "required": ["purpose", "file"],
                    "properties": {
                        "purpose": {"const": "batch"},
                        "file": {"type": "string", "format": "binary"},
                        file_form.ANCHOR: {"const": "created_at"},
                        file_form.SECONDS: {"type": "integer", "minimum": LEAST_S, "maximum": MOST_S},
                    },
                }
            }
        },
    }
}

router = Router()


@router.post("/files", response=dict[str, Any], openapi_extra=UPLOAD, summary="Send a file")
async def upload(request: HttpRequest) -> dict[str, Any]:
    """Keep a JSONL file for a batch."""
    form = await sync_to_async(file_form.read, thread_sensitive=True)(request)
    new = files.NewFile(caller(request).user.pk, form.filename, form.size_bytes, form.keep)
    try:
        file = await threads.write(files.store, new, form.pieces(), settings.FILES_BYTES_PER_USER)
    except files.NoRoom as full:
        raise ApiError(413, str(full), code="files_too_large", param="file") from None
    return shown(file)


@router.get("/files", response=dict[str, Any], summary="List files")
async def list_files(
    request: HttpRequest,
    purpose: str | None = None,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=LIST_MAX)] = 100,
    order: Literal["asc", "desc"] = "desc",
) -> dict[str, Any]:
    """The caller's files, a page at a time: those sent for batches, and those that batches wrote."""
    after, user_id = checked_after(after, "file-"), caller(request).user.pk
    found, has_more = await threads.run(
        files.page, user_id, purpose=purpose, after=after, limit=limit, latest_first=order == "desc"
    )
    return listed(found, has_more, shown)


@router.get("/files/{file_id}", response=dict[str, Any], summary="Show a file")
async def retrieve(request: HttpRequest, file_id: str) -> dict[str, Any]:
    """What is known of a file."""
    return shown(await found(request, file_id))


@router.get("/files/{file_id}/content", summary="Fetch what is in a file")
async def content(request: HttpRequest, file_id: str) -> HttpResponse:
    """The file itself."""
    file = await found(request, file_id)
    request.scope["handover"] = FileHandover(file)  # type: ignore[attr-defined]
    answer = HttpResponse(content_type="application/octet-stream")
    answer.headers["Content-Disposition"] = "attachment"
    return answer


@router.delete("/files/{file_id}", response=dict[str, Any], summary="Delete a file")
async def delete(request: HttpRequest, file_id: str) -> dict[str, Any]:
    """Remove a file and all that is in it; not the input of a batch that has not ended."""
    file = await found(request, file_id)
    try:
        await threads.write(batches.remove_file, file.id)
    except batches.InUse as used:
        raise ApiError(409, f"{used} reads this file and has not ended", code="file_in_use") from None
    return {"id": file.id, "object": "file", "deleted": True}


async def found(request: HttpRequest, file_id: str) -> StoredFile:
    """The caller's file; raises ApiError, alike for unknown ones and for somebody else's."""
    file = await threads.run(files.get, file_id, caller(request).user.pk)
    if file is None:
        raise ApiError(404, "there is no such file", code="not_found")
    return file


def shown(file: StoredFile) -> dict[str, Any]:
    """A file as OpenAI shows one."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": int(file.created_at.timestamp()),
        "expires_at": int(file.expires_at.timestamp()) if file.expires_at else None,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


class Vanished(Exception):
    """A file was removed while it was sent: the connection is broken off, for a clean end would look whole."""


class FileHandover:
    """A file's pages, read as the socket takes them: one is in memory, whatever the file's size."""

    def __init__(self, file: StoredFile):
        self._file = file
        self._is_closed = False

    async def opening(self) -> AsyncIterator[bytes]:
        """There is nothing to wait for."""
        return self._pages()

    async def _pages(self) -> AsyncIterator[bytes]:
        seq, left_bytes = 0, self._file.size_bytes
        while not self._is_closed and (page := await threads.run(files.pieces_after, self._file.id, seq)):
            seq, data = page[-1][0], b"".join(data for _, data in page)
            left_bytes -= len(data)
            yield data
        if left_bytes and not self._is_closed:
            raise Vanished(self._file.id)

    def close(self) -> None:
        """Read no further."""
        self._is_closed = True
