"""A Ctrl-C that Python dropped is noticed at the next step of the work."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rli.cli.interruption import watch_for_interruption
from rli.cli.progress import Interrupted, write_progress
from rli.model import Step


@pytest.fixture(autouse=True)
def _restored_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    watch_for_interruption()
    yield
    signal.signal(signal.SIGINT, before)


def drop_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def work_through_a_dropped_interruption() -> None:
    with write_progress("batch") as on_step:
        on_step(Step.INFLIGHT)
        drop_an_interruption()
        on_step(Step.TAGGED)
        pytest.fail("the work went on")


def test_dropped_interrupt_ends_next_step() -> None:
    with pytest.raises(Interrupted, match="batch: nothing was written"):
        work_through_a_dropped_interruption()


def test_handled_interrupt_does_not_stop_work() -> None:
    with pytest.raises(Interrupted), write_progress("first"):
        signal.raise_signal(signal.SIGINT)
    with write_progress("second") as on_step:
        on_step(Step.INFLIGHT)


def test_ctrl_c_during_import() -> None:
    program = (
        "import signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'rli':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "import rli_launcher\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "rli_launcher.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
