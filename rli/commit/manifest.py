"""The manifest of a write: the files that the write is about to bring into the table.

Their names hold its instant, but for log files of table version 6: a manifest with such a file names the instant itself.

After a power cut, a file system without a journal may show the content of another folder in a work folder. The manifest there
may belong to another write, whose files must stay (P17).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from typing import Final

from pydantic import TypeAdapter, ValidationError

from rli.errors import CorruptTableError
from rli.hudi.file_names import is_log_file
from rli.publication.deltacommits import files_of_deltacommit
from rli.storage import Storage
from rli.view import paths
from rli.view.file_listing import files_written_at

_MANIFEST: Final = TypeAdapter(list[dict[str, str] | str])
_INSTANT: Final = "instant"


def manifest_of(instant: str, files: Sequence[str]) -> bytes:
    """The manifest of a write.

    Args:
        instant: of the write.
        files: that it brings into the table, by their paths in it.
    """
    has_unnamed = any(is_log_file(path) and instant not in posixpath.basename(path) for path in files)
    return json.dumps([*([{_INSTANT: instant}] if has_unnamed else []), *files]).encode()


def listed_files(storage: Storage, instant: str) -> list[str]:
    """The files of a manifest; none where there is no manifest."""
    manifest = storage.read_bytes(paths.manifest(instant))
    if manifest is None:
        return []
    if _is_cut_short(manifest):
        # A power cut has torn it: most files are known by their names, too.
        return [*files_written_at(storage, instant), *files_of_deltacommit(storage, instant)]
    try:
        entries = _MANIFEST.validate_json(manifest)
    except ValidationError as error:
        raise CorruptTableError(
            f"the list of files of a dead write is damaged: file={paths.manifest(instant)}",
            remedy=(
                f"delete all base files whose name ends in _{instant}.parquet, and log files with _{instant}.log in "
                "their names, then the folder "
                f"{paths.work_folder(instant)}"
            ),
        ) from error
    is_own = entries[:1] == [{_INSTANT: instant}]
    return [path for path in entries if isinstance(path, str) and (is_own or instant in posixpath.basename(path))]


def _is_cut_short(manifest: bytes) -> bool:
    written = manifest.rstrip(b"\0")
    return not written or (written.startswith(b"[") and not written.endswith(b"]"))
