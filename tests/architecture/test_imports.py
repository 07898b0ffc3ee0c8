from __future__ import annotations

import subprocess
import sys
import sysconfig
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.every_case

REPOSITORY = Path(__file__).resolve().parents[2]

PACKAGES: Final = ["rli", "rli_spark", "rli_hbase", "rli_lmdb", "rli_redis"]
MOST_IMPORTS: Final = 22
"""Of modules of its own package, by any module."""


def test_the_import_contracts_of_pyproject_hold() -> None:
    command = Path(sysconfig.get_path("scripts"), "lint-imports")
    outcome = subprocess.run([command, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@cache
def imports_of(package: str) -> dict[str, set[str]]:
    """The modules that each module of a package imports from it."""
    # Not installed beside PySpark 4, where this module is collected, too.
    import grimp  # noqa: PLC0415

    graph = grimp.build_graph(package, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_many(package: str) -> None:
    counts = {module: len(imported) for module, imported in imports_of(package).items()}
    assert {module: count for module, count in counts.items() if count > MOST_IMPORTS} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_imports_form_a_circle(package: str) -> None:
    # Raises CycleError, with the circle.
    TopologicalSorter(imports_of(package)).prepare()


@pytest.mark.parametrize("module", ["rli", "rli.testing", "rli.store.registry"])
def test_core_import_loads_no_client_library(module: str) -> None:
    program = f"import sys, {module}; print(*sorted(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    clients = {"lmdb", "happybase", "thriftpy2", "pyspark", "py4j", "pandas", "typer", "rich"}
    assert not (clients | {"rli_lmdb", "rli_hbase", "rli_spark"}) & set(loaded)


def test_advice_is_loaded_when_asked() -> None:
    program = (
        "import sys, rli\n"
        "assert 'rli.advice' not in sys.modules and {'advise', 'advice'} <= set(dir(rli))\n"
        "assert rli.advice is sys.modules['rli.advice'] and rli.advice.Advice is rli.Advice\n"
        "from rli import *\n"
        "assert advise is rli.advise is sys.modules['rli.advice.advise'].advise and Advice is rli.Advice"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
