"""Runs on feeds of the types and sizes of the last ones, by the one program of the whole model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from lowtide.onnx.known_steps import KnownProgram
from lowtide.records import dataclass

_ARRAY: Final = np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class RepeatedRun:
    """A program for feeds of a signature, no value of which decides about it.

    There is only the one of the last run: it is the program used last, whoever else counts that.
    """

    signature: tuple[Any, ...]
    program: KnownProgram


def signature_of(feeds: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return names, types and sizes of arrays; it has fewer entries than feeds if others are."""
    return tuple([(name, x.dtype, x.shape) for name, x in feeds.items() if type(x) is _ARRAY])


def repeated(feeds: Mapping[str, Any], program: KnownProgram) -> RepeatedRun | None:
    """Return how to run on such feeds again, None where their values decide about the program."""
    signature = signature_of(feeds)
    if program.step.fixed or len(signature) < len(feeds):
        return None
    return RepeatedRun(signature, program)
