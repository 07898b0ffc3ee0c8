"""Folders of tests in memory."""

from __future__ import annotations

from tests.support.folders import tmp_path, tmp_path_factory

__all__ = ["tmp_path", "tmp_path_factory"]
