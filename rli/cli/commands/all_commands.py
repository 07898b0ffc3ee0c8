"""All commands, in the order of the help."""

from __future__ import annotations

import typer

from rli.cli.commands import (
    advise,
    bench,
    capacity,
    change,
    cluster,
    compact,
    create,
    doctor,
    housekeeping,
    index,
    lease,
    lock,
    metadata,
    overwrite,
    read,
    report,
    table_type,
    undo,
    write,
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    create.register(app)
    write.register(app)
    overwrite.register(app)
    change.register(app)
    undo.register(app)
    cluster.register(app)
    compact.register(app)
    housekeeping.register(app)
    read.register(app)
    report.register(app)
    index.register(app)
    metadata.register(app)
    lease.register(app)
    lock.register(app)
    table_type.register(app)
    doctor.register(app)
    capacity.register(app)
    advise.register(app)
    bench.register(app)
