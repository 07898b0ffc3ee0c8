"""``python -m rli``: the command line."""

from __future__ import annotations

from rli.cli import main

if __name__ == "__main__":
    main()
