"""Trip counts that a module claims for its loops, beside those that follow from the loops."""

from __future__ import annotations

from lowtide.analysis.call_graph import executed_computations
from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import Module, Opcode
from lowtide.ops.backend_config import known_trip_count
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ClaimedTripCount:
    """Names of loops, in order: whose count is only claimed, claimed wrongly, or not known."""

    claimed: tuple[str, ...]
    contradicted: tuple[str, ...]
    unknown: tuple[str, ...]


def trip_count_claims(module: Module) -> ClaimedTripCount:
    """Return the loops that run in a module and whose trip counts nothing here confirms."""
    claimed, contradicted, unknown = [], [], []
    for computation in executed_computations(module.entry):
        for x in computation.instructions.values():
            if x.opcode is not Opcode.WHILE:
                continue
            known, found = known_trip_count(x), trip_count(x)
            if known is None:
                unknown += [] if found else [x.name]
            elif found is None:
                claimed.append(x.name)
            elif found.count != known:
                contradicted.append(x.name)
    return ClaimedTripCount(tuple(claimed), tuple(contradicted), tuple(unknown))
