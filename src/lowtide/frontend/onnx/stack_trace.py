"""The line of the user's program that a node comes from, where the exporter wrote it down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_KEY: Final = "stack_trace"
_FRAME: Final = re.compile(r'File "([^"\n]+)", line (\d{1,9})')


def innermost_frame(properties: Mapping[str, str]) -> tuple[str, int]:
    """Return file and line, from 1, of the last frame of the stack among a node's properties.

    That is where the node was made; ("", 0) where it is not known.
    """
    for key, value in properties.items():
        is_trace = isinstance(value, str) and str(key).endswith(_KEY)
        frames = _FRAME.findall(value) if is_trace else []
        if frames:
            file, line = frames[-1]
            return file, int(line)
    return "", 0
