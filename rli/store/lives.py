"""Stores that may lose what they have acknowledged: their servers live more than once."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class SupportsLives(Protocol):
    """A store that may lose its last changes of control records, when a server is restarted or a replica takes over."""

    def life(self) -> str:
        """Names the present life of the server with the control records, all over the world.

        Within one life no acknowledged change of a control record is lost.
        """
        ...
