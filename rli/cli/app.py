"""The application: its commands, and what becomes of errors."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import rli
from rli.cli.commands import all_commands
from rli.cli.demo import command as demo
from rli.cli.failures import Failure, asks_for_json, exit_status
from rli.cli.output import FAILED, drop_output
from rli.cli.statuses import INTERRUPTED, PIPE_CLOSED
from rli.cli.telling import waits_and_warnings_told
from rli.errors import RliError

_UsageError: Any = typer.BadParameter.__base__
"""Of the click that typer uses: the installed one, or its own copy."""


class CommandGroup(TyperGroup):
    """Runs a command; errors that rli raises on purpose become one line and an exit status, with ``--json`` also JSON."""

    def invoke(self, ctx: Any) -> Any:
        # Running a command takes its arguments out of the context.
        as_json = asks_for_json(ctx.args)
        try:
            with waits_and_warnings_told():
                return super().invoke(ctx)
        except RliError as error:
            Failure.of(error, ctx.obj).report(as_json=as_json)
            raise typer.Exit(exit_status(error)) from None
        except BrokenPipeError:
            drop_output()
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            if error.errno is None:
                raise
            refused = f"the operating system refused: {error}"
            Failure("OSError", refused, "check permissions, paths and free space").report(as_json=as_json)
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt as interrupt:
            Failure("KeyboardInterrupt", str(interrupt) or "interrupted").report(as_json=as_json, label="")
            raise typer.Exit(INTERRUPTED) from None
        except _UsageError as error:
            if as_json:
                Failure("UsageError", error.format_message(), "see --help").print_json()
            raise


app = typer.Typer(
    name="rli",
    cls=CommandGroup,
    help="A record-level index for lakehouse tables, and tables that upsert through it.",
    epilog="Exit status: 0 done; 1 the check found something; 2 wrong usage or input, or a failure; 3 other writers were "
    "first, or kept the lease; 4 a store does not answer; 130 interrupted; "
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
all_commands.register(app)
