"""How a user of this environment calls ``rli``: commands that are shown work as they are shown."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import Final

_NAME: Final = "rli"


def command_line() -> str:
    """The command as a shell takes it in this folder: by its name alone where that leads to this environment."""
    script = os.path.join(os.path.dirname(sys.executable), _NAME)
    found = shutil.which(_NAME)
    if found is not None and os.path.abspath(found) == script:
        return _NAME
    if not os.access(script, os.X_OK):
        return f"{shlex.quote(sys.executable)} -m {_NAME}"
    return shlex.quote(min(script, os.path.relpath(script), key=len))
