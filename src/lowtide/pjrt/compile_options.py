"""Options of one compilation: those of the call, else those of the environment."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Final

from lowtide.client.option_texts import OptionError, environment_options, options_from_texts
from lowtide.ir.gpu_names import is_gpu_target
from lowtide.options import CHECKS, OPTIONS_VARIABLE, Options, options_text
from lowtide.suggestions import nearest

_XLA = "xla_"

_TARGET: Final = "target="

_CHECK: Final = "check"
CONTRACTS: Final = "contracts"
"""The check, of the environment, that holds what JAX is told against what there is."""


def checks_contracts() -> bool:
    """Whether the environment asks for that check."""
    return f"{_CHECK}={CONTRACTS}" in [x.strip() for x in options_text().split(",")]


def card_target() -> str:
    """Return the graphics processor that the environment names as target, "" for none."""
    parts = ["".join(x.split()) for x in options_text().split(",")]
    names = [x.removeprefix(_TARGET) for x in parts if x.startswith(_TARGET)]
    return next((x for x in names if is_gpu_target(x)), "")


def lowtide_options(pairs: Iterable[tuple[str, str | bool | int | float]]) -> Options:
    """Return what `compiler_options` of `jax.jit` and LOWTIDE_OPTIONS ask for; the first wins.

    `pairs` are those of `jax.jit`: names and values. Options of XLA's own are accepted, and a
    warning says once that they change nothing: a program may give them for other platforms. Raises
    OptionError.
    """
    given = {}
    for name, value in pairs:
        if name.startswith(_XLA):
            _warn(name)
        else:
            given[name] = value
    return _options_of(given) if given else _options_of_environment(options_text())


@lru_cache(maxsize=16)
def _options_of_environment(_: str) -> Options:
    """The options of programs that ask for none, for a text of the environment."""
    return _options_of({})


def _options_of(given: Mapping[str, str | bool | int | float]) -> Options:
    """The options of a program that asks for some; raises OptionError."""
    general = environment_options()
    if general.get(_CHECK) == CONTRACTS:
        del general[_CHECK]
    elif hint := nearest(general.get(_CHECK, ""), [CONTRACTS]):
        known = ", ".join([*CHECKS, CONTRACTS])
        found = f"{_CHECK} is one of {known}; found {general[_CHECK]!r}{hint}"
        raise OptionError(f"{found} ({OPTIONS_VARIABLE})")
    if given.get(_CHECK) == CONTRACTS:
        raise OptionError(
            f"{_CHECK}={CONTRACTS} is for all programs of a process, from its start: set "
            f"{OPTIONS_VARIABLE}={_CHECK}={CONTRACTS} (compiler_options of lowtide)"
        )
    options_from_texts(general, OPTIONS_VARIABLE)  # says which of the two is wrong
    return options_from_texts({**general, **given}, "compiler_options of lowtide")


@cache
def _warn(name: str) -> None:
    warnings.warn(
        f"{name} is an option of XLA, and means nothing to lowtide", RuntimeWarning, stacklevel=2
    )
