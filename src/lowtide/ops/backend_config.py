"""The backend config of an instruction, read and written as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

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
