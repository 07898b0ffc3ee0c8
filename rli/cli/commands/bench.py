"""``rli bench``: the benchmarks, which are part of the source and not of the installed package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from rli.cli.options import JsonOption, add_command
from rli.errors import SettingsError

_SOURCE: Final = Path(__file__).resolve().parents[3]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app, bench, "rli bench --quick", "rli bench lmdb_store redis_store", "rli bench --large --output results --json"
    )


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Benchmarks to run, as listed in docs/benchmarks.md. Default: all.", show_default=False
        ),
    ] = None,
    *,
    large: Annotated[
        bool, typer.Option("--large", help="Tables of 20 million rows beside other engines, for about an hour.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smoke test with less data; figures are not meaningful.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder for results.json and the charts.")
    ] = Path("bench-results"),
    as_json: JsonOption = False,
) -> None:
    """Measure rli against other engines and against raw stores, as ratios within a run.

    Needs a checkout of the source with its development tools (make install), and Docker for the servers. All benchmarks
    take about an hour. Exit status 1 if a benchmark failed.
    """
    if not (_SOURCE / "benchmarks" / "__main__.py").is_file():
        raise SettingsError(
            f"the benchmarks need rli's source, and this is an installed package: package={_SOURCE}",
            remedy="clone the repository and run: make bench",
        )
    # Before an hour of measuring.
    output.mkdir(parents=True, exist_ok=True)
    flags = {"--large": large, "--quick": quick, "--json": as_json}
    options = [*(flag for flag, is_set in flags.items() if is_set), "--output", str(output.absolute())]
    command = [sys.executable, "-m", "benchmarks", *options, *(names or [])]
    raise typer.Exit(subprocess.run(command, cwd=_SOURCE, check=False).returncode)  # noqa: S603  (our own module)
