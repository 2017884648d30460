"""`...-memory-usage-report.txt`: what fills each allocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from lowtide.ir.buffer import Allocation, AssignedValue, BufferAssignment
from lowtide.records import dataclass
from lowtide.xla.dumps.buffer_assignment import bytes_text, values_by_allocation

_SPACES: Final = {0: "default", 1: "vmem", 2: "smem", 3: "hbm", 4: "host", 5: "cmem"}
_HEADER: Final = "  cumulative_size;       size;       offset; used_by_n_values; shapes_list"
_RULE: Final = "  " + "-" * 60
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_SHOWN: Final = 51
"""How many rows and allocations are shown at least, if there are as many."""
_TAIL: Final = 0.05
"""The share of the bytes that may be left out at the end."""


@dataclass(frozen=True, slots=True)
class MemorySpaceUsage:
    """The allocations of one memory space, largest first; small ones may be left out.

    Of each there is a table of the places in it, by size.
    """

    colour: int
    nbytes: int
    allocations: tuple[str, ...]


def memory_usage(assignment: BufferAssignment) -> tuple[MemorySpaceUsage, ...]:
    """Return what fills each allocation, by memory space."""
    members = values_by_allocation(assignment)
    by_colour: dict[int, list[Allocation]] = {}
    for allocation in assignment.allocations:
        by_colour.setdefault(allocation.colour, []).append(allocation)
    spaces = []
    for colour, allocations in sorted(by_colour.items()):
        total = sum([x.nbytes for x in allocations])
        so_far = 0
        tables = []
        for allocation in sorted(allocations, key=lambda x: (-x.nbytes, x.index)):
            so_far += allocation.nbytes
            tables.append(_table(members[allocation.index]))
            if _is_enough(len(tables), so_far / total if total else 1.0):
                break
        spaces.append(MemorySpaceUsage(colour, total, tuple(tables)))
    return tuple(spaces)


def memory_usage_text(spaces: Sequence[MemorySpaceUsage]) -> str:
    """Return the report as XLA dumps it."""
    parts = []
    for space in spaces:
        name = _SPACES.get(space.colour, str(space.colour))
        parts.append(f"Memory Space: {name} (color={space.colour})\n")
        parts.append(f"Total bytes: {space.nbytes} ({bytes_text(space.nbytes)})\n")
        parts += [f"{table}\n" for table in space.allocations]
        parts.append("\n")
    return "".join(parts)


def _table(values: Sequence[AssignedValue]) -> str:
    """The places of an allocation, those that begin at one offset together, largest first.

    `values` stand by number; of places of one size, the one whose last value is first comes first.
    """
    return "\n".join([_HEADER, _RULE, *_rows(values)]) + "\n"


def _rows(values: Sequence[AssignedValue]) -> Iterator[str]:
    places: dict[int, list[AssignedValue]] = {}
    for value in values:
        places.setdefault(value.place.offset, []).append(value)
    groups = [(max([x.place.nbytes for x in group]), group) for group in places.values()]
    groups.sort(key=lambda x: (-x[0], x[1][-1].number))
    total = sum([nbytes for nbytes, _ in groups])
    so_far = 0
    for shown, (nbytes, group) in enumerate(groups, 1):
        so_far += nbytes
        share = so_far / total if total else 1.0
        yield (
            f"  {bytes_text(so_far):>9}({100 * share:3.0f}%); {bytes_text(nbytes):>10}; "
            f"{group[0].place.offset:>12}; {len(group):>16}; {_shapes(group)}"
        )
        if _is_enough(shown, share):
            rest = len(groups) - shown
            yield (
                f"  The rest {rest} values are less than {_TAIL:.0%} of the total size and not "
                "shown."
            )
            return


def _is_enough(shown: int, share: float) -> bool:
    """Whether what is shown of a list makes up enough of its bytes to leave out the rest."""
    return shown >= _SHOWN and 1 - share < _TAIL


def _shapes(group: Sequence[AssignedValue]) -> str:
    """The shapes of some values, the rarest first, with how often each comes."""
    counts = Counter([x.instruction.shape.at(x.index).text(layout=False) for x in group])
    ordered = sorted(counts.items(), key=lambda x: (x[1], x[0]))
    return ", ".join([text if count == 1 else f"{count}{_TIMES}{text}" for text, count in ordered])
