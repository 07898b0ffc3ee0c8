"""From prepared files to an outcome: the way of a write through the lease."""

from __future__ import annotations

from rli.commit.begun_write import BegunWrite
from rli.commit.checked_write import require_files_read
from rli.commit.leased_write import LeasedWrite
from rli.commit.outcome import Outcome, Published, Unchanged, Undecided
from rli.commit.prepared_write import PreparedWrite
from rli.commit.published_write import PublishedWrite
from rli.commit.turns import exclusive_in_turn
from rli.commit.write_ahead import write_ahead
from rli.errors import UndecidedCommitError
from rli.model import LeasePlace, Step


def publish(begun: BegunWrite, prepared: PreparedWrite, turn: str | None = None) -> Outcome:
    """Publish the files of the accepted tasks, and bring the index up to date.

    Only an interruption (``KeyboardInterrupt`` and the like) is raised. It leaves nothing of a write that is not published.

    Args:
        begun: the write, as it began.
        prepared: the result of the engine's work.
        turn: name of the write's own turn, if it has one.
    """
    # A repeat of a transaction that changed nothing must change nothing, so it has a commit too.
    if not (prepared.stats or prepared.replaced or prepared.deleted_keys or begun.caller.is_given):
        return _ended_unchanged(begun, prepared)
    published: PublishedWrite | None = None
    promoted: list[str] = []
    try:
        # Before the lease is asked for: flushing base files takes long, and no other writer should wait for it (P17).
        write_ahead(begun, begun.table.storage, prepared.files, prepared.journals, is_flushed=prepared.is_flushed)
        begun.on_step(Step.MANIFESTED)
        with exclusive_in_turn(begun.table, begun.index, begun.instant, turn, patience=begun.patience) as lease:
            published = LeasedWrite(begun, lease, promoted).publish(prepared)
            published.report(Step.PUBLISHED)
            published.confirm_regrouped()
            if _shares_index(begun):
                # The next holder's check of conflicts needs this commit in the index. If the lease were free now, the
                # next holder would read the journals from the disk, and both would write the same entries.
                published.bring_index_up_to_date()
    except UndecidedCommitError as error:
        # Its files stay: the next holder of the lease decides, and clears up.
        # The work folder stays and the record goes: the next holder of the lease then counts this writer as dead, and
        # settles the draft. A record that is still renewed would keep the draft undecided.
        begun.leave()
        return Undecided(error)
    except Exception as error:  # noqa: BLE001  (the outcome tells of it)
        if published is None:
            return begun.abandoned(error, promoted)
        published.tell(error)
    except BaseException:
        if published is None:
            begun.withdraw(promoted)
        else:
            published.tidy_up()
        raise
    return _finished(begun, published)


def _finished(begun: BegunWrite, published: PublishedWrite) -> Published:
    try:
        if not _shares_index(begun):
            # Each host applies the commit to an index of its own here, so no other host need wait for it with the
            # lease.
            published.bring_index_up_to_date()
        published.report_applied()
    finally:
        # Ctrl-C may come in between. The signs of life of a write that has ended would hold others up.
        published.tidy_up()
    return published.finished()


def _ended_unchanged(begun: BegunWrite, prepared: PreparedWrite) -> Outcome:
    try:
        require_files_read(begun, prepared.read.groups - prepared.replaced, begun.snapshot)
    except Exception as error:  # noqa: BLE001  (the outcome tells of it)
        return begun.abandoned(error)
    begun.withdraw()
    return Unchanged(prepared.result(None, begun.clock.seconds))


def _shares_index(begun: BegunWrite) -> bool:
    """Whether all writers of the table share this index; with the lease elsewhere, each host may have its own."""
    return begun.table.require_settings().lease is LeasePlace.INDEX
