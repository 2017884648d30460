"""The backend config of an instruction, read and written as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from lowtide.ir import Instruction


def read_config(instruction: Instruction) -> dict[str, Any] | None:
    """Return the backend config of an instruction as a dictionary; None where it is none."""
    text = instruction.annotations.backend_config
    if not text:
        return {}
    try:
        config = json.loads(text)
    except ValueError:
        return None
    return config if isinstance(config, dict) else None


def write_config(instruction: Instruction, config: dict[str, Any]) -> None:
    """Replace the backend config of an instruction."""
    text = json.dumps(config, separators=(",", ":")) if config else ""
    instruction.set_annotations(replace(instruction.annotations, backend_config=text))


def known_trip_count(loop: Instruction) -> int | None:
    """Return how often a loop runs its body as its backend config claims; None without a claim."""
    claim = (read_config(loop) or {}).get("known_trip_count")
    count = str(claim.get("n", "")) if isinstance(claim, dict) else ""
    return int(count) if count.isdecimal() and len(count) <= _MOST_DIGITS else None


_MOST_DIGITS: Final = 19
"""Of a count that fits 64 bits."""
