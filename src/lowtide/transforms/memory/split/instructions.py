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
from lowtide.passes.interface import Pass, PassError, example
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
        *example(
            """
HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

+part {
+ p = (s32[], f32[8,4], f32[4,64], f32[8]) parameter(0)
+ i = s32[] get-tuple-element(p), index=0
+ x.1 = f32[8,4] get-tuple-element(p), index=1
+ w.1 = f32[4,64] get-tuple-element(p), index=2
+ sums = f32[8] get-tuple-element(p), index=3
+ one = s32[] constant(1)
+ next = s32[] add(i, one)
+ two = s32[] constant(2)
+ start = s32[] multiply(i, two)
+ none = s32[] constant(0)
+ rows = f32[2,4] dynamic-slice(x.1, start, none), dynamic_slice_sizes={2,4}
+ h.1 = f32[2,64] dot(rows, w.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+ e.1 = f32[2,64] exponential(h.1)
+ zero.1 = f32[] constant(0)
+ sum.1 = f32[2] reduce(e.1, zero.1), dimensions={1}, to_apply=add
+ sums.1 = f32[8] dynamic-update-slice(sums, sum.1, start)
+ ROOT r = (s32[], f32[8,4], f32[4,64], f32[8]) tuple(next, x.1, w.1, sums.1)
+}
+
+more_parts {
+ p.1 = (s32[], f32[8,4], f32[4,64], f32[8]) parameter(0)
+ i.1 = s32[] get-tuple-element(p.1), index=0
+ four = s32[] constant(4)
+ ROOT more = pred[] compare(i.1, four), direction=LT
+}
+
ENTRY main {
  x = f32[8,4] parameter(0)
  w = f32[4,64] parameter(1)
  zero = f32[] constant(0)
- h = f32[8,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
- e = f32[8,64] exponential(h)
- ROOT sum = f32[8] reduce(e, zero), dimensions={1}, to_apply=add
+ first = s32[] constant(0)
+ zero.2 = f32[] constant(0)
+ zeros = f32[8] broadcast(zero.2), dimensions={}
+ state = (s32[], f32[8,4], f32[4,64], f32[8]) tuple(first, x, w, zeros)
+ loop = (s32[], f32[8,4], f32[4,64], f32[8]) while(state), condition=more_parts, body=part,
+   frontend_attributes={unroll="false"}
+ ROOT sum = f32[8] get-tuple-element(loop), index=3
}
"""
        ),
        meanings=(
            ("parts", "in how many parts, which divide the dimension that is split"),
            ("rounds", "how many loops are made at most"),
            ("sums", "whether sums over the dimension that is split may be cut, too"),
        ),
    ),
)
