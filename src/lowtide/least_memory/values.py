"""The values of a computation as the bound sees them: what makes them, of what, in which kind."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from lowtide.analysis.dataflow import ComputationDataflow, ValueKind
from lowtide.ir import Instruction
from lowtide.least_memory.kinds import Kind, kind_of
from lowtide.records import dataclass

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class ProgramValues:
    """The operations of a computation that make values, and the values.

    Per operation: `instructions`, `kinds`, and the numbers of the values in `reads` and `makes`.
    `nbytes` has what storing each value takes: 0 for what is in memory in any case. Values of
    `given` need no operation, those of `kept` are in memory at the end.
    """

    instructions: tuple[Instruction, ...]
    kinds: tuple[Kind, ...]
    reads: tuple[tuple[int, ...], ...]
    makes: tuple[tuple[int, ...], ...]
    nbytes: Int64Array
    given: frozenset[int]
    kept: frozenset[int]


def values_of(flow: ComputationDataflow, lasting: Collection[int]) -> ProgramValues:
    """Return the values of a computation, to which the `lasting` ones are there in any case.

    So are constants, which are part of the program.
    """
    nbytes = np.array(flow.value_bytes, np.int64)
    given = frozenset([v for v, kind in enumerate(flow.value_kind) if kind <= ValueKind.CONSTANT])
    constants = [v for v in given if flow.value_kind[v] is ValueKind.CONSTANT]
    nbytes[[*constants, *lasting]] = 0
    used = [
        number
        for number, (x, makes) in enumerate(zip(flow.nodes, flow.makes, strict=True))
        if not given.issuperset(makes) or kind_of(x) is not Kind.FREE
    ]
    return ProgramValues(
        tuple([flow.nodes[i] for i in used]),
        tuple([kind_of(flow.nodes[i]) for i in used]),
        tuple([flow.reads[i] for i in used]),
        tuple([flow.makes[i] for i in used]),
        nbytes,
        given,
        frozenset(flow.root),
    )
