"""The options of `plan` under the names that NNVM reads from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict

MATCH_RANGE: Final = "NNVM_EXEC_MATCH_RANGE"
AUTO_SEARCH: Final = "NNVM_AUTO_SEARCH_MATCH_RANGE"
NUM_TEMP: Final = "NNVM_EXEC_NUM_TEMP"

_FLAGS: Final = {"1": True, "true": True, "0": False, "false": False}


class NnvmOptions(TypedDict):
    """The options of `plan` that NNVM has as variables."""

    match_range: int
    auto_search_match_range: bool
    num_temp: int


def options_from(variables: Mapping[str, str]) -> NnvmOptions:
    """Return the options that variables of an environment stand for, to call `plan(**options)`.

    Absent and empty ones have NNVM's defaults: 16, false, 1. Raises ValueError for a value that is
    no number from 0 on, or no flag.
    """
    return NnvmOptions(
        match_range=_number(variables, MATCH_RANGE, 16),
        auto_search_match_range=_flag(variables, AUTO_SEARCH),
        num_temp=_number(variables, NUM_TEMP, 1),
    )


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} is {text!r}; expected a number from 0 on")
    return int(text)


def _flag(variables: Mapping[str, str], name: str) -> bool:
    text = variables.get(name, "").strip().lower()
    if text and text not in _FLAGS:
        raise ValueError(f"{name} is {text!r}; expected one of {', '.join(_FLAGS)}")
    return _FLAGS.get(text, False)
