"""Misses of `jax_suite.py` that are expected: a pattern of test and reason, and why."""

from __future__ import annotations

from typing import Final

_PLATFORM = "the test names platforms, and `lowtide` is none of them"

EXPECTED: Final = {
    r"KeyError: 'lowtide'": _PLATFORM,
    r"test_platform_dependent|test_default_export_platform": _PLATFORM,
}
