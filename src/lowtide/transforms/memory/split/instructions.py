"""Large values never made as a whole: what makes and what reads them is run in parts.

The logits of a loss over a vocabulary, the scores of attention, the hidden layer of a network: each
is computed from smaller values, and folded into smaller ones. What a batch goes through without
being folded is run for one part of the batch after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.traversal import post_order
from lowtide.passes.interface import Pass, PassError
from lowtide.transforms.memory.peak_values import PeakValues, Planner, peak_values
from lowtide.transforms.memory.split.alignments import KnownAlignments, sizes_of
from lowtide.transforms.memory.split.barriers import take_barriers_apart
from lowtide.transforms.memory.split.loops import run_in_parts
from lowtide.transforms.memory.split.sections import Section, grown


def split_large_instructions(
    module: Module,
    planner: Planner | None = None,
    admits: Callable[[Section], bool] | None = None,
    *,
    parts: int = 4,
    rounds: int = 4,
    sums: bool = True,
) -> int:
    """Run in parts what makes the most bytes live at the peak; return how many loops were made.

    A loop takes the place of a section of instructions that someone `admits`, by default any, where
    the module then needs fewer bytes, as the `planner` says, by default by what is live at the peak
    as it stands. Results that are put together from parts are equal in each bit; sums over the
    dimension that is split are rounded otherwise; without `sums` no section has such ones. Raises
    PassError where `parts` is less than 2.
    """
    if parts < 2:
        raise PassError(f"split-large-instructions: parts is 2 or more, found {parts}")
    whole = clone_module(module)
    take_barriers_apart(whole)
    least, peak = _needs(whole, planner)
    known: KnownAlignments = {}
    made = 0
    while made < rounds:
        best: tuple[Module, PeakValues | None] | None = None
        most = least - least // _LEAST_SHARE
        for section in _candidates(peak or peak_values(whole, planner), parts, sums, known):
            if admits is not None and not admits(section):
                continue
            trial = clone_module(whole)
            run_in_parts(_in(trial, section), parts)
            nbytes, after = _needs(trial, planner)
            if nbytes <= most:
                best, most = (trial, after), nbytes
        if best is None:
            break
        (whole, peak), least = best, most
        made += 1
    if made:
        module.become(whole)
    return made


def _needs(module: Module, planner: Planner | None) -> tuple[int, PeakValues | None]:
    """The bytes of a module, and what is live at its peak where that tells them."""
    if planner is not None:
        return planner.footprint(module), None
    peak = peak_values(module)
    return peak.nbytes, peak


def _candidates(peak: PeakValues, parts: int, sums: bool, known: KnownAlignments) -> list[Section]:
    """The sections that seem to take most from the peak, most first."""
    order = post_order(peak.computation)
    found: dict[tuple[Instruction, ...], tuple[int, Section]] = {}
    members: set[tuple[Instruction, int]] = set()
    for seed in _seeds(peak, parts):
        if seed in members:
            continue  # What grows from a member is nearly always the same.
        section = grown(order, *seed, parts, known)
        if section is None:
            continue
        members.update([(x, how.result) for x, how in section.how.items()])
        if section.folds and not sums:
            continue
        gain = _gain(peak, section, parts)
        if gain > peak.nbytes // _LEAST_SHARE:
            found.setdefault(tuple(section.how), (gain, section))
    ranked = sorted(found.values(), key=lambda row: -row[0])
    return [section for _, section in ranked[:_MOST_TRIALS]]


_LEAST_SHARE: Final = 64
"""Sections that would save a smaller part of the peak are left as they are."""

_MOST_SEEDS: Final = 8
"""From so many values sections are grown."""

_MOST_TRIALS: Final = 3
"""So many sections are tried in each round."""


def _seeds(peak: PeakValues, parts: int) -> Iterator[tuple[Instruction, int]]:
    """The largest values at the peak, of each shape one, and their dimensions."""
    largest: dict[object, Instruction] = {}
    for x in sorted(peak.live, key=lambda x: -peak.live[x]):
        if x.opcode not in (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.WHILE):
            largest.setdefault((x.shape, x.opcode), x)
    for x in list(largest.values())[:_MOST_SEEDS]:
        for dimension, size in enumerate(sizes_of(x.shape) or ()):
            if size % parts == 0:
                yield x, dimension


def _gain(peak: PeakValues, section: Section, parts: int) -> int:
    """How many bytes less would be live at the peak, if it were in the loop."""
    exits = set(section.exits)
    saved = sum(
        [
            nbytes - nbytes // parts
            for x, nbytes in peak.live.items()
            if x in section.how and x not in exits and not section.how[x].folds
        ]
    )
    held = [*section.inputs, *section.exits, *section.folds]
    more = [x.shape.nbytes for x in held if x not in peak.live and not _is_given(x)]
    return saved - sum(more)


def _is_given(x: Instruction) -> bool:
    return x.opcode is Opcode.CONSTANT or (x.opcode is Opcode.PARAMETER and x.parent.is_entry)


def _in(module: Module, section: Section) -> Section:
    """The same section of a copy of its module, in which names are the same."""
    known = module.computations[next(iter(section.how)).parent.name].instructions

    def named(instructions: Iterable[Instruction]) -> tuple[Instruction, ...]:
        return tuple([known[x.name] for x in instructions])

    return Section(
        {known[x.name]: how for x, how in section.how.items()},
        named(section.folds),
        named(section.exits),
        frozenset(named([x for x in section.how if x in section.copies])),
        named(section.inputs),
    )


PASSES: Final = (
    Pass(
        "split-large-instructions",
        split_large_instructions,
        "Runs what makes the largest values at the peak in parts, one after the other.",
        before="""
HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[8,4] parameter(0)
  w = f32[4,64] parameter(1)
  zero = f32[] constant(0)
  h = f32[8,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[8,64] exponential(h)
  ROOT sum = f32[8] reduce(e, zero), dimensions={1}, to_apply=add
}
""",
        meanings=(
            ("parts", "in how many parts, which divide the dimension that is split"),
            ("rounds", "how many loops are made at most"),
            ("sums", "whether sums over the dimension that is split may be cut, too"),
        ),
    ),
)
