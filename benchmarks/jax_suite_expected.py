"""Misses of `jax_suite.py` that are expected: a pattern of test and reason, and why."""

from __future__ import annotations

from typing import Final

_PARTITIONING = "the program divides arrays between devices, which is refused"
_CALLBACKS = "the program calls back into Python, or orders effects by tokens"
_PLATFORM = "the test exports for platforms by name, and `lowtide` is none of them"

EXPECTED: Final = {
    r"the program is for \d+ devices and divides": _PARTITIONING,
    r"Host callback not supported|EmitPythonCallback|call back into Python": _CALLBACKS,
    r"takes or returns a token": _CALLBACKS,
    r"exported for platforms|test_default_export_platform|KeyError: 'lowtide'": _PLATFORM,
}
