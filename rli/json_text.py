"""JSON that another process wrote: parsed so that hostile or damaged content is an ordinary error."""

from __future__ import annotations

import json
from typing import Any


def parse_json(content: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: the text is not JSON, or nests too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("the JSON text nests too deeply") from error
