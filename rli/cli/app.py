"""The application: its commands, and what becomes of errors."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import rli
from rli.cli import INTERRUPTED, PIPE_CLOSED
from rli.cli.commands import advise, bench, capacity, cluster, doctor, housekeeping, index, lease, read, undo, write
from rli.cli.demo import command as demo
from rli.cli.output import FAILED, drop_output, print_error, with_options, with_table
from rli.cli.telling import waits_and_warnings_told
from rli.errors import RliError


class CommandGroup(TyperGroup):
    """Runs a command; errors that rli raises on purpose become one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with waits_and_warnings_told():
                return super().invoke(ctx)
        except RliError as error:
            print_error(with_table(with_options(str(error)), ctx.obj))
            raise typer.Exit(FAILED) from None
        except BrokenPipeError:
            drop_output()
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            if error.errno is None:
                raise
            print_error(f"the operating system refused: {error}; check permissions, paths and free space")
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt as interrupt:
            print_error(str(interrupt) or "interrupted", label="")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="rli",
    cls=CommandGroup,
    help="A record-level index for lakehouse tables, and tables that upsert through it.",
    epilog="Exit status: 0 done; 1 the check found something; 2 wrong usage or input, or a failure; 130 interrupted; "
    "141 the reader of the output has closed it.\n\n"
    "Start with: rli demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rli {rli.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


demo.register(app)
write.register(app)
undo.register(app)
cluster.register(app)
housekeeping.register(app)
read.register(app)
index.register(app)
lease.register(app)
doctor.register(app)
capacity.register(app)
advise.register(app)
bench.register(app)
