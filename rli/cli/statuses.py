"""Exit statuses of interrupted processes, as shells have them."""

from __future__ import annotations

import signal
from typing import Final

INTERRUPTED: Final = 128 + signal.SIGINT
"""After Ctrl-C."""
PIPE_CLOSED: Final = 128 + signal.SIGPIPE
"""If the reader of standard output has closed it."""
