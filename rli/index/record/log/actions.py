"""Names of actions in the commit log, beside those of the timeline. Stored records have them."""

from __future__ import annotations

from typing import Final

TRANSACTION: Final = "transaction"
"""A commit of a transaction on the index alone."""

PREPARE: Final = "prepare"
"""Announces a prepared transaction (P35); it brings no changes."""

SWEEP: Final = "sweep"
"""Names transactions that cannot commit any more: their staged changes go (P30)."""

BOOTSTRAP: Final = "bootstrap"
"""Entries that were read from base files."""

REPAIR: Final = "repair"
"""Entries that were corrected from base files."""

FOREIGN: Final = "foreign"
"""A run of commits of another engine."""

REREAD: Final = "reread"
"""Commits were undone, and the file groups that they had changed are indexed again."""

EXPIRE: Final = "expire"
"""Entries of expired keys go. The instant of its sequence is the cutoff."""
