"""What a running command shows: a moving line on a terminal, a few plain lines elsewhere. On standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from rli.cli.interruption import interruption_is_dealt_with, raise_if_interrupted
from rli.cli.output import counted, err_console, print_note
from rli.commit.step_clock import OnStep
from rli.model import MigrationStep, Step
from rli.table.new_index import OnMigrationStep

Item = TypeVar("Item")
Result = TypeVar("Result")

_UNDER_WAY: Final = {
    Step.INFLIGHT: "looking up keys",
    Step.TAGGED: "comparing with stored records",
    Step.RESOLVED: "writing file groups",
    Step.WRITTEN: "publishing",
    Step.PUBLISHED: "updating the index",
    Step.FINISHED: "done",
}
_DONE: Final = {
    Step.TAGGED: "keys looked up",
    Step.PUBLISHED: "commit published",
    Step.APPLIED: "index up to date",
}


_MIGRATED: Final = {
    MigrationStep.BUILT: "new index built",
    MigrationStep.CAUGHT_UP: "commits made meanwhile applied",
    MigrationStep.VERIFIED: "new index compared with the table",
    MigrationStep.LEASED: "lease taken",
    MigrationStep.SWITCHED: "table switched to the new index",
    MigrationStep.DROPPED: "former index dropped",
}
_MIGRATING: Final = {
    MigrationStep.BUILT: "applying commits made meanwhile",
    MigrationStep.CAUGHT_UP: "comparing",
    MigrationStep.LEASED: "applying the last commits",
}


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what has become of the command's work."""


class ShownTasks:
    """Runs tasks in this process, one after the other, and shows how many are done."""

    runs_in_turn = True

    def __init__(self, label: str) -> None:
        self.label = label

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """The results in the order of the items, each computed when it is asked for."""
        console = err_console()
        if not console.is_terminal:
            yield from map(function, items)
            return
        with Progress(*_counted_columns(), console=console, transient=True) as progress:
            for item in progress.track(items, description=self.label):
                yield function(item)


@contextmanager
def files_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many files are done; gives the function that is told of their number, and of how many there are."""
    console = err_console()
    if not console.is_terminal:
        yield lambda _, __: None
        return
    with Progress(*_counted_columns(), console=console, transient=True) as progress:
        shown = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(shown, completed=done, total=total)


def _counted_columns() -> tuple[ProgressColumn, ...]:
    return SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()


@contextmanager
def write_progress(label: str, *, is_silent: bool = False) -> Iterator[OnStep]:
    """Show how far a write is, unless it is silent, as dry runs are; gives the function that is told of its steps.

    Raises:
        Interrupted: for a ``KeyboardInterrupt``, with whether the write took place.
    """
    reached: set[Step] = set()
    with nullcontext(lambda _: None) if is_silent else _line(label) as show:

        def on_step(step: Step) -> None:
            reached.add(step)
            show(step)
            raise_if_interrupted()

        try:
            yield on_step
        except KeyboardInterrupt as interrupt:
            interruption_is_dealt_with()
            raise Interrupted(f"interrupted: {label}: {_outcome(reached)}") from interrupt


@contextmanager
def migration_progress(table: str, tasks: ShownTasks) -> Iterator[OnMigrationStep]:
    """Show how far the migration of an index is; gives the function that is told of its steps.

    Raises:
        Interrupted: for a ``KeyboardInterrupt``, with what the table's index is.
    """
    reached: set[MigrationStep] = set()

    def on_step(step: MigrationStep) -> None:
        reached.add(step)
        tasks.label = _MIGRATING.get(step, tasks.label)
        print_note(f"migrate {table}: {_MIGRATED[step]}")
        raise_if_interrupted()

    try:
        yield on_step
    except KeyboardInterrupt as interrupt:
        interruption_is_dealt_with()
        outcome = (
            "the table has the new index"
            if MigrationStep.SWITCHED in reached
            else "the table keeps its index; run the command again to go on"
        )
        raise Interrupted(f"interrupted: migrate {table}: {outcome}") from interrupt


def _outcome(reached: set[Step]) -> str:
    if Step.PUBLISHED in reached:
        return "the commit had been published and stays; the next write, or rli index sync, completes the index"
    if Step.PROMOTED in reached:
        return "while publishing; rli timeline shows whether the commit exists"
    return "nothing was written"


@contextmanager
def _line(label: str) -> Iterator[Callable[[Step], None]]:
    console = err_console()
    written = 0

    def count(step: Step) -> None:
        nonlocal written
        written += step is Step.FILE_GROUP_WRITTEN

    if not console.is_terminal:

        def print_line(step: Step) -> None:
            count(step)
            text = f"{counted(written, 'file group')} written" if step is Step.WRITTEN else _DONE.get(step)
            if text is not None:
                console.print(f"{label}: {text}", soft_wrap=True)

        yield print_line
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"{label}: starting", total=None)

        def update(step: Step) -> None:
            count(step)
            text = f"writing file groups ({written} done)" if step is Step.FILE_GROUP_WRITTEN else _UNDER_WAY.get(step)
            if text is not None:
                progress.update(task, description=f"{label}: {text}")

        yield update
