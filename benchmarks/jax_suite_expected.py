"""Misses of `jax_suite.py` that are expected: a pattern of test and reason, and why."""

from __future__ import annotations

from typing import Final

EXPECTED: Final[dict[str, str]] = {}
