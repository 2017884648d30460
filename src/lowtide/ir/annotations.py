"""Annotations of instructions besides their own attributes: shardings, hints, backend data."""

from __future__ import annotations

from typing import Final

from lowtide.ir.sharding import Sharding
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Statistics:
    """Numbers shown by visualizers: `visualizing_index=1,name=2.5`."""

    visualizing_index: int
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """Accuracy asked of an elementwise function: a mode, or tolerances where `mode` is ""."""

    mode: str = ""
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


@dataclass(frozen=True, slots=True)
class Annotations:
    """The generic attributes of an instruction, other than metadata and control dependencies.

    `backend_config` is the raw text: a JSON dictionary in braces, or a string.
    `origin` is the raw text between the braces of `origin={...}`.
    """

    sharding: Sharding | None = None
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    statistics: Statistics | None = None
    result_accuracy: ResultAccuracy | None = None
    parameter_replication: tuple[bool, ...] = ()
    origin: str = ""
    backend_config: str = ""


NO_ANNOTATIONS: Final = Annotations()
