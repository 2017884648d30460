"""Misses of `jax_suite.py` that are expected: a pattern of test and reason, and why."""

from __future__ import annotations

from typing import Final

_PARTITIONING = "the program divides arrays between devices, which is refused"
_CALLBACKS = "the program calls back into Python, or orders effects by tokens"
_PLATFORM = "the test names platforms, and `lowtide` is none of them"
_OPTIONS = "`compiler_options` are not read"

EXPECTED: Final = {
    r"the program is for \d+ devices and divides|exchanges values with other": _PARTITIONING,
    r"Host callback not supported|EmitPythonCallback|call back into Python": _CALLBACKS,
    r"takes or returns a token": _CALLBACKS,
    r"test_jit_\w*compile_with_compiler_options": _OPTIONS,
    r"exported for platforms|KeyError: 'lowtide'": _PLATFORM,
    r"test_platform_dependent|test_default_export_platform": _PLATFORM,
}
