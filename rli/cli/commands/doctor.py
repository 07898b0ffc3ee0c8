"""``rli doctor``: what is wrong with a store, an index or a table, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from rli.cli.checkup.table import TableCheckup
from rli.cli.options import IndexOption, JsonOption, add_command, is_store_url
from rli.cli.output import FOUND, counted, out_console, report, with_table, without_controls
from rli.errors import SettingsError
from rli.findings import Finding, Verdict
from rli.hudi.java_properties import parse_properties
from rli.index.record.findings import index_findings
from rli.urls import without_password

_MARKS: Final = {
    Verdict.OK: ("ok      ", "green"),
    Verdict.WARNING: ("warning ", "yellow"),
    Verdict.PROBLEM: ("problem ", "bold red"),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What ``rli doctor`` reports.

    Attributes:
        target: the URL or the table.
        problems: how many findings are problems.
        warnings: how many are warnings.
        findings: all of them, in the order of looking.
    """

    target: str
    problems: int
    warnings: int
    findings: tuple[Finding, ...]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        doctor,
        "rli doctor trips",
        "rli doctor lmdb:///data/idx/trips",
        "rli doctor trips --hudi-options job.properties",
    )


def doctor(
    target: Annotated[
        str,
        typer.Argument(metavar="URL|TABLE", help="Store URL of an index, or folder of a table.", show_default=False),
    ],
    index: IndexOption = None,
    hudi_options: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Properties file of a job of Hudi that writes the table beside rli: check its options, too.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a store, or a table with its index, and advise on each problem.

    Writes only a test record into the store, and removes it again. Exit status 1 if there is a problem.
    """
    is_store = is_store_url(target)
    if is_store and hudi_options is not None:
        raise SettingsError("--hudi-options is for a table", remedy="name the folder of the table")
    checkup = TableCheckup(target, index, None if hudi_options is None else _properties(hudi_options))
    findings = tuple(index_findings(target) if is_store else map(_named(target), checkup.run()))
    counts = [sum(found.verdict is verdict for found in findings) for verdict in (Verdict.PROBLEM, Verdict.WARNING)]
    diagnosis = Diagnosis(without_password(target), counts[0], counts[1], findings)
    report(diagnosis, as_json=as_json, render=lambda: _print(diagnosis))
    if diagnosis.problems:
        raise typer.Exit(FOUND)


def _properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_bytes())
    except ValueError as error:
        raise SettingsError(
            f"the file is no properties file: file={path} ({error})", remedy="write lines KEY=VALUE"
        ) from error


def _named(table: str) -> Callable[[Finding], Finding]:
    """Puts the table's name into advice."""
    return lambda found: replace(found, advice=found.advice and with_table(found.advice, table))


def _print(diagnosis: Diagnosis) -> None:
    console = out_console()
    for found in diagnosis.findings:
        mark, style = _MARKS[found.verdict]
        console.print(
            Text.assemble((mark, style), (f"{found.check}: ", "bold"), without_controls(found.detail)), soft_wrap=True
        )
        if found.advice is not None:
            console.print(Text.assemble(" " * len(mark), "→ ", without_controls(found.advice)), soft_wrap=True)
    if diagnosis.problems or diagnosis.warnings:
        console.print(
            f"{counted(diagnosis.problems, 'problem')}, {counted(diagnosis.warnings, 'warning')}: {diagnosis.target}",
            soft_wrap=True,
        )
    else:
        console.print(f"all is well: {diagnosis.target}", soft_wrap=True)
