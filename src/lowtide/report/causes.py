"""The causes of the peak: why each of its bytes is taken, in sums that are exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from lowtide.records import dataclass
from lowtide.report.peak import CauseKind
from lowtide.report.schema import Json

if TYPE_CHECKING:
    from lowtide.report.memory import MemoryReport


@dataclass(frozen=True, slots=True)
class PeakCause:
    """`nbytes` of all memory of a call that are taken for one reason."""

    kind: CauseKind
    nbytes: int

    @property
    def text(self) -> str:
        """The reason as a sentence without a full stop."""
        return _TEXTS[self.kind]

    def to_json(self) -> Json:
        """Return the entry of the schema's `causes`."""
        return {"name": self.kind.value, "bytes": self.nbytes, "text": self.text}


def peak_causes(report: MemoryReport) -> tuple[PeakCause, ...]:
    """Return why the memory of a call is taken, largest cause first; they sum to `total_bytes`.

    What is live at the peak above the proven bound is put down to the order, out of the buffers
    that have no other cause. Donated arguments that temporaries lie in by then count as those.
    """
    ladder, found = report.ladder, dict.fromkeys(CauseKind, 0)
    for buffer in report.peak.buffers:
        found[buffer.cause] += buffer.nbytes
    beyond = sum(found.values()) - found[CauseKind.ARGUMENTS]
    found[CauseKind.ARGUMENTS] = report.argument_bytes + ladder.live_bytes - beyond
    found[CauseKind.CONSTANTS] = report.constant_bytes
    found[CauseKind.PACKING] = ladder.arena_bytes - ladder.live_bytes
    order = min(ladder.live_bytes - ladder.bound_bytes, found[CauseKind.IRREDUCIBLE])
    found[CauseKind.ORDER] = order
    found[CauseKind.IRREDUCIBLE] -= order
    causes = [PeakCause(kind, nbytes) for kind, nbytes in found.items() if nbytes]
    return tuple(sorted(causes, key=lambda x: -x.nbytes))


_TEXTS: Final[Mapping[CauseKind, str]] = {
    CauseKind.ARGUMENTS: "what the caller gives, but for donated memory that is used again",
    CauseKind.CONSTANTS: "constants of the program",
    CauseKind.OUTPUTS: "results",
    CauseKind.NOT_DONATED: "results that could overwrite an argument if that were donated",
    CauseKind.SAVED: "made in the forward pass and held for the gradient; jax.checkpoint around "
    "what makes it computes it again instead",
    CauseKind.LOOP_STATE: "copies of what a loop carries, since old and new state are needed at "
    "once",
    CauseKind.COPIES: "copies; `reason` of each buffer says why it is there",
    CauseKind.MATERIALIZED: "elementwise results that are stored, since no kernel joins them with "
    "what reads them",
    CauseKind.SCRATCH: "what the kernel at the peak needs while it runs",
    CauseKind.ORDER: "above the proven bound: another order of the instructions may need less",
    CauseKind.PACKING: "holes between buffers",
    CauseKind.IRREDUCIBLE: "arrays that are needed at that step in every order, and that none of "
    "the other causes explains",
}
