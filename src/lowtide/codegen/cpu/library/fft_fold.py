"""The pass that puts transforms of real lines together, or takes them apart, for a few long lines.

Source: J. Cooley, P. Lewis and P. Welch (1970), "The fast Fourier transform algorithm: programming
considerations in the calculation of sine, cosine and Laplace transforms".
"""

from __future__ import annotations

from lowtide.codegen.cpu.library.fft_pass import Setting
from lowtide.codegen.cpu.library.fft_real import given_halves, result_halves
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.library.fft_form import FoldPass
from lowtide.codegen.library.fft_stages import RootsOfUnity
from lowtide.codegen.library.field import (
    Parts,
    PlanarGrid,
    added,
    conjugate,
    subtracted,
    times,
    value_of,
)
from lowtide.llvm.function import Function


class FoldFunction:
    """Writes the function of such a pass; a unit is a vector of pairs of opposite places."""

    def __init__(self, pass_: FoldPass, setting: Setting, name: str) -> None:
        self.form, self.setting, self.lanes = pass_, setting, setting.lanes
        self.fn = Function(name, ARGUMENTS)
        self.elements = vector_elements(self.fn, setting.target, setting.lanes)
        self._blocks = -(-pass_.pairs // setting.lanes)
        self._roots = RootsOfUnity(
            self.elements, PlanarGrid(setting.type, 1, setting.lanes), 2 * pass_.half
        )

    @property
    def units(self) -> int:
        """The number of pieces of work."""
        return self.form.groups * self._blocks

    def write(self) -> None:
        """Write the function.

        All of a vector of pairs is read before any of it is stored, so that it may be in place.
        """
        fn, form, lanes = self.fn, self.form, self.lanes
        arrays = self.setting.arrays(fn)
        with self.elements.scopes.loop("%begin", "%end") as loop:
            first = fn.mul(fn.rem(loop.index, self._blocks), lanes)
            here = memory.numbered_lanes(fn, self.setting.target, first, lanes)
            inside = here.compare("slt", form.pairs)
            here = here.where(~inside, 0)
            there = here.constant(form.half) - here
            group = fn.div(loop.index, self._blocks)
            source = fn.gep(arrays[form.source], fn.mul(group, (form.half + 1) * self._size))
            target = fn.gep(arrays[form.target], fn.mul(group, form.kept * self._size))
            one, opposite = self._pair(source, here, there, inside)
            root = self._roots.at(here)
            if form.extended:
                even, odd = given_halves(one, opposite, conjugate(root))
            else:
                even, odd = result_halves(one, opposite)
                odd = times(odd, root)
            self._store(target, here, added(even, odd), inside)
            if form.kept == form.half:
                inside = inside & here.compare("ne", 0)
            self._store(target, there, conjugate(subtracted(even, odd)), inside)

    @property
    def _size(self) -> int:
        return self.setting.type.nbytes

    def _pair(
        self, source: str, here: Number, there: Number, inside: Number
    ) -> tuple[Parts, Parts]:
        """The elements of a pair of places; the first complex number is opposite to itself."""
        if not self.form.extended:
            return self._load(source, here, inside), self._load(
                source, there.where(here.compare("eq", 0), 0), inside
            )
        one, opposite = self._load(source, here, inside), self._load(source, there, inside)
        is_end = here.compare("eq", 0)
        return self._real_at(one, is_end), self._real_at(opposite, is_end)

    def _real_at(self, value: Parts, ends: Number) -> Parts:
        """A value without the imaginary parts of the first and the last number."""
        return value[0], value[1].where(ends, 0.0)

    def _load(self, array: str, at: Number, inside: Number) -> Parts:
        fn, setting = self.fn, self.setting
        found = memory.gather(
            fn, setting.target, setting.type, array, at.name, self.lanes, inside.name
        )
        return memory.numbers(fn, setting.target, found)

    def _store(self, array: str, at: Number, value: Parts, inside: Number) -> None:
        element = value_of(value, self.setting.type)
        memory.scatter_store(self.fn, self.setting.target, element, array, at.name, inside.name)
