"""What commands print of a commit."""

from __future__ import annotations

from typing import Final

from rli.cli.output import counted, print_facts, report
from rli.model import CommitResult, Receipt
from rli.sizes import human_bytes

_BEHIND: Final = "behind: the commit stands, and the next write, look-up or rli index sync applies it"


def report_commit(label: str, result: CommitResult, *, as_json: bool) -> None:
    """Print a commit: all its fields as JSON, or ``commit_summary`` for a person."""
    report(result, as_json=as_json, render=lambda: print_facts(commit_summary(label, result)))


def commit_summary(label: str, result: CommitResult) -> dict[str, object]:
    """The facts of a commit, or of one that a dry run foretells, by their names.

    Args:
        label: of the batch: its file, keys or condition.
        result: of the write.
    """
    counts = {
        "inserted": result.inserted,
        "updated": result.updated,
        "moved": result.moved,
        "deleted": result.deleted,
        "unchanged": result.unchanged,
        "duplicates": result.duplicates,
    }
    records = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "none"
    created, rewritten = f"{result.files_created:,}", f"{result.files_rewritten:,}"
    if result.dry_run:
        files = f"{created} to create, {rewritten} to rewrite"
        paths = "\n".join(result.files_to_rewrite)
        return {
            "batch": label,
            "commit": "repeated: committed before" if result.repeated else "none, this was a dry run",
            "records": records,
            "files": files,
            **({"to rewrite": paths} if paths else {}),
        }
    appended = f", {counted(result.files_appended, 'log file')}" if result.files_appended else ""
    files = f"{created} created, {rewritten} rewritten{appended}, {human_bytes(result.written_bytes)}"
    return {
        "batch": label,
        "commit": _commit(result),
        "records": records,
        **({"files": files} if result.instant else {}),
        **({"index": _BEHIND} if result.index_behind else {}),
        **_held(result.receipt),
    }


def _held(receipt: Receipt | None) -> dict[str, object]:
    """Which files still hold what was removed, for a person."""
    if receipt is None or not receipt.files:
        return {}
    until = f"until a clean whose oldest readable commit is later than {receipt.held_until}"
    saved = f"; savepoints keep them: {', '.join(receipt.savepoints)}" if receipt.savepoints else ""
    return {
        "still held": f"by {counted(len(receipt.files), 'file')} {until}{saved}",
        "held by": "\n".join(receipt.files),
    }


def _commit(result: CommitResult) -> str:
    if result.instant is None:
        return "none, nothing changed"
    return (
        f"{result.instant} (repeated: committed before, nothing was written now)" if result.repeated else result.instant
    )
