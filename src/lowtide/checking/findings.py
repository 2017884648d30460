"""Collects violations, in words: which value, made when, lost to what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lowtide.checking.elements import CheckedElements
from lowtide.checking.memory import NOTHING, Contents
from lowtide.checking.order import CheckedOrder
from lowtide.checking.sites import CheckedSite
from lowtide.checking.violation import Violation, ViolationKind
from lowtide.ir import Instruction
from lowtide.ir.buffer import BufferAssignment, BufferSlice
from lowtide.ir.shape import index_text


class Origin(NamedTuple):
    """Where a content comes from: element `element` of what an instruction makes at a step."""

    site: CheckedSite
    instruction: Instruction
    element: int
    step: int
    is_state: bool = False


class Region(NamedTuple):
    """What a loop or conditional may have written into a place, somewhere within `sites`."""

    site: CheckedSite
    instruction: Instruction
    inner: tuple[CheckedSite, ...]


class Findings:
    """The violations found so far, and the names of contents.

    Contents above zero are values, those below are places that a loop or a conditional wrote.
    """

    def __init__(
        self, assignment: BufferAssignment, order: CheckedOrder, elements: CheckedElements
    ) -> None:
        self.assignment = assignment
        self.order = order
        self.elements = elements
        self.violations: list[Violation] = []
        self._origins: list[Origin] = []
        self._regions: list[Region] = []
        self._lost: set[int] = set()

    def add(
        self,
        kind: ViolationKind,
        message: str,
        names: Iterable[str] = (),
        steps: Iterable[int] = (),
        places: Iterable[BufferSlice] = (),
    ) -> None:
        """Record a violation."""
        self.violations.append(Violation(kind, message, tuple(names), tuple(steps), tuple(places)))

    # -- contents ------------------------------------------------------------------------------

    def value(self, origin: Origin) -> int:
        """Return a new content."""
        self._origins.append(origin)
        return len(self._origins)

    def region(self, region: Region) -> int:
        """Return a new content that stands for unknown values."""
        self._regions.append(region)
        return -len(self._regions)

    def origin(self, content: int) -> Origin:
        """Return where a value comes from."""
        return self._origins[content - 1]

    # -- names ---------------------------------------------------------------------------------

    def step(self, site: CheckedSite, instruction: Instruction) -> int:
        """Return the step at which an instruction runs at a call site."""
        return site.first_step + self.order.offset[instruction]

    def name(self, site: CheckedSite, instruction: Instruction, element: int) -> str:
        """Return the name of a value, with the calls on the way to it."""
        index = ""
        if instruction.shape.is_tuple:
            path = self.elements.of(instruction.shape)[element].index
            index = index_text(path)
        return f"{site.prefix}{instruction.name}{index}"

    def origin_name(self, origin: Origin) -> str:
        """Return the name of a value."""
        return self.name(origin.site, origin.instruction, origin.element)

    def where(self, place: BufferSlice) -> str:
        """Describe a slice: its bytes, the last one not included, and its allocation."""
        kind = self.assignment.allocations[place.allocation].kind
        end = place.offset + place.nbytes
        return f"bytes {place.offset:,} to {end:,} of allocation {place.allocation} ({kind})"

    def describe(self, origin: Origin) -> str:
        """Describe a value: its shape, its name and when it is made."""
        shape = self.elements.of(origin.instruction.shape)[origin.element].shape
        text = f"{self.origin_name(origin)} {shape.text(layout=False)}"
        if origin.is_state:
            return f"the state of loop {text}, from step {origin.step:,} on,"
        return f"{text}, made at step {origin.step:,},"

    # -- overlaps ------------------------------------------------------------------------------

    def lost(
        self, memory: Contents, content: int, place: BufferSlice, reader: str, step: int
    ) -> None:
        """Record that a value is not in its place any more when it is read; once per value."""
        if content in self._lost:
            return
        self._lost.add(content)
        origin = self.origin(content)
        name = self.origin_name(origin)
        text = f"{self.describe(origin)} is not in {self.where(place)} when {reader} reads it"
        for start, end, found in memory.pieces(place.offset, place.offset + place.nbytes):
            if found == content:
                continue
            if found == NOTHING:
                self.add(
                    ViolationKind.MISPLACED,
                    f"{text} at step {step:,}: nothing was written there",
                    (name,),
                    (origin.step, step),
                    (place,),
                )
                return
            part = BufferSlice(place.allocation, start, end - start)
            by, at, theirs = self._writer(found, part)
            self.add(
                ViolationKind.OVERLAP,
                f"{text} at step {step:,}: {by} overwrites bytes {start:,} to {end:,}",
                (name, *theirs),
                (origin.step, *at, step),
                (place, part),
            )
            return

    def forget(self, content: int) -> bool:
        """Record a value as lost; whether it was not before."""
        before = len(self._lost)
        self._lost.add(content)
        return len(self._lost) > before

    def _writer(
        self, content: int, part: BufferSlice
    ) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
        """Who put a content into a place: in words, the step, the name."""
        if content > 0:
            origin = self.origin(content)
            return self.describe(origin), (origin.step,), (self.origin_name(origin),)
        region = self._regions[-content - 1]
        origin = self._first_writer(region, part)
        words = f"{self.describe(origin)} in {region.site.prefix}{region.instruction.name}"
        return words, (origin.step,), (self.origin_name(origin),)

    def _first_writer(self, region: Region, part: BufferSlice) -> Origin:
        for top in region.inner:
            for site in top.subtree():
                for instruction in self.order.sequences[site.computation]:
                    for number, element in enumerate(self.elements.of(instruction.shape)):
                        place = site.place(instruction, element)
                        if place is not None and overlap(place, part):
                            step = self.step(site, instruction)
                            return Origin(site, instruction, number, step)
        step = self.step(region.site, region.instruction)
        return Origin(region.site, region.instruction, 0, step)


def overlap(a: BufferSlice, b: BufferSlice) -> bool:
    """Whether two slices have a byte in common."""
    return (
        a.allocation == b.allocation
        and a.offset < b.offset + b.nbytes
        and b.offset < a.offset + a.nbytes
    )
