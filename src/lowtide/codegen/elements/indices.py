"""Indices in a function: variables, quotients, and what is written of them."""

from __future__ import annotations

from functools import partial
from typing import Final

from lowtide.codegen import indexing
from lowtide.codegen.elements.scopes import Scopes
from lowtide.codegen.elements.values import Element
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Variable
from lowtide.codegen.value import Value
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer

_NARROW: Final = 1 << 31
"""Indices below this are computed in 32 bits where lanes differ."""

_INDEX: Final = {"i32": ElementType.S32, "i64": ElementType.S64}


class Indices:
    """Writes indices; those of a lane variable are vectors of `lanes` numbers."""

    def __init__(self, scopes: Scopes, lanes: int) -> None:
        self.scopes = scopes
        self.function = scopes.function
        self.lanes = lanes
        self.fixed: dict[Variable, None] = {}
        """Variables that are used otherwise than in addresses."""
        self.quotients: list[tuple[Affine, int]] = []
        """Indices that had to be divided, and by what."""
        self.tests: list[tuple[Affine, int, int]] = []
        """Indices that had to be compared, with the ends of the range, the latter excluded."""
        self._variables = 0
        self._divided: dict[Variable, tuple[Affine, int]] = {}

    def variable(self, name: Integer, extent: int, *, is_lane: bool = False) -> Affine:
        """Return an i64 that is known from here on as an index below `extent`."""
        if isinstance(name, int) and not is_lane:
            return indexing.constant(name)
        self._variables += 1
        return indexing.of(Variable(self._variables, str(name), extent, self.scopes.level, is_lane))

    def split(self, index: Affine, divisor: int) -> tuple[Affine, Affine]:
        """Return quotient and remainder of an index that is not negative.

        Of a dimension of size 0 nothing is ever read: any index will do.
        """
        if divisor == 0:
            return indexing.ZERO, indexing.ZERO
        found = index.split(divisor)
        if found is not None:
            return found
        multiples = {v: x for v, x in index.terms if x % divisor == 0}
        rest = index
        whole = indexing.ZERO
        if multiples and index.constant >= 0:
            taken = Affine(
                tuple([(v, x // divisor) for v, x in multiples.items()]), 0, -(1 << 62), 1 << 62
            )
            remaining = tuple([(v, x) for v, x in index.terms if x % divisor])
            if all(x > 0 for _, x in remaining):
                high = index.constant + sum([x * (v.extent - 1) for v, x in remaining])
                rest = Affine(remaining, index.constant, index.constant, high)
                whole = taken
        quotient = self._quotient(rest, divisor)
        remainder = (rest - quotient * divisor).within(0, divisor - 1)
        remainder = Affine(remainder.terms, remainder.constant, 0, divisor - 1)
        total = whole + quotient
        top = index.high // divisor
        return Affine(total.terms, total.constant, index.low // divisor, top), remainder

    def _quotient(self, index: Affine, divisor: int) -> Affine:
        found: Affine = self.scopes.once(
            ("quotient", index, divisor), index.level, lambda: self._new_quotient(index, divisor)
        )
        return found

    def _new_quotient(self, index: Affine, divisor: int) -> Affine:
        """A variable whose value is written where it is needed, which it seldom is."""
        self._variables += 1
        extent = max(index.high // divisor + 1, 2)
        vector = f"%quotient{self._variables}" if index.varies else ""
        variable = Variable(self._variables, "", extent, self.scopes.level, vector=vector)
        self._divided[variable] = index, divisor
        return indexing.of(variable)

    def _divided_by(self, variable: Variable) -> str:
        """Write a quotient: an i64, or one for each lane."""
        index, divisor = self._divided[variable]
        self.fix(index)
        self.quotients.append((index, divisor))
        if not variable.vector:
            return str(self.function.div(self.scalar(index), divisor))
        fn, type_ = self.function, f"<{self.lanes} x i64>"
        if index.high >= _NARROW:
            return fn.op(f"udiv {type_} {self.vector(index)}, splat (i64 {divisor})")
        narrow = f"<{self.lanes} x i32>"
        found = fn.op(f"udiv {narrow} {self.narrow_vector(index)}, splat (i32 {divisor})")
        return fn.op(f"zext {narrow} {found} to {type_}")

    def name_of(self, variable: Variable) -> Integer:
        """Return the LLVM value of a variable."""
        if variable not in self._divided:
            number = variable.name
            return int(number) if number.isdecimal() else variable.vector or number
        name: str = self.scopes.once(
            ("divided", variable), variable.level, lambda: self._divided_by(variable)
        )
        return name

    def fix(self, index: Affine) -> None:
        """Note that an index is used for itself, not in an address."""
        for variable, _ in index.terms:
            self.fixed[variable] = None

    def looked_up(self, element: Element, extent: int) -> Affine:
        """Return an integer element as an index, clamped to 0 .. `extent` - 1."""
        (value,) = element.values
        found: Affine = self.scopes.once(
            ("index", value, extent), element.level, lambda: self._clamped(value, extent)
        )
        return found

    def _clamped(self, value: Value, extent: int) -> Affine:
        if extent <= 1:
            return indexing.ZERO
        fn, lanes = self.function, value.lanes
        width = "i32" if value.type.bits <= 32 and extent <= _NARROW else "i64"
        type_ = f"<{lanes} x {width}>" if lanes else width
        name = _widened(fn, value, type_, width)
        top = f"splat ({width} {extent - 1})" if lanes else str(extent - 1)
        if value.type.is_signed:
            zero = "zeroinitializer" if lanes else "0"
            name = fn.intrinsic("smax", type_, name, zero)
            name = fn.intrinsic("smin", type_, name, top)
        else:
            name = fn.intrinsic("umin", type_, name, top)
        if width == "i32":
            name = fn.op(f"sext {type_} {name} to {f'<{lanes} x i64>' if lanes else 'i64'}")
        self._variables += 1
        vector = name if lanes else ""
        return indexing.of(
            Variable(self._variables, name, extent, self.scopes.level, vector=vector)
        )

    def scalar(self, index: Affine) -> Integer:
        """Write an index, of lane 0 where lanes differ, as an i64."""
        total: Integer = 0
        for level in sorted({v.level for v, _ in index.terms}):
            group = tuple([(v, x) for v, x in index.terms if v.level == level and not v.vector])
            total = self.scopes.once(
                ("sum", total, group), level, partial(self._summed, total, group)
            )
        return self.function.add(total, index.constant)

    def _summed(self, before: Integer, terms: tuple[tuple[Variable, int], ...]) -> Integer:
        total = before
        for variable, factor in terms:
            total = self.function.add(total, self.function.mul(self.name_of(variable), factor))
        return total

    def vector(self, index: Affine) -> str:
        """Write an index as an i64 per lane."""
        if self.is_narrow(index):
            narrow, lanes = self.narrow_vector(index), self.lanes
            return self.function.op(f"sext <{lanes} x i32> {narrow} to <{lanes} x i64>")
        return self._lanes_of(index, "i64")

    def is_narrow(self, index: Affine) -> bool:
        """Whether an index is not negative and has 31 bits."""
        return index.low >= 0 and index.high < _NARROW

    def narrow_vector(self, index: Affine) -> str:
        """Write an index as an i32 per lane, wrapped around where that is too narrow."""
        name: str = self.scopes.once(
            ("narrow", index), index.level, lambda: self._lanes_of(index, "i32")
        )
        return name

    def _lanes_of(self, index: Affine, width: str) -> str:
        fn, type_ = self.function, f"<{self.lanes} x {width}>"
        base = self._narrowed(str(self.scalar(index)), "i64", width)
        total = memory.splat(fn, Value((base,), _INDEX[width]), self.lanes).name
        step = sum([x for v, x in index.terms if v.is_lane])
        if step:
            numbers = ", ".join([f"{width} {i * step}" for i in range(self.lanes)])
            total = fn.op(f"add {type_} {total}, <{numbers}>")
        for variable, factor in index.terms:
            if variable.vector:
                wide = f"<{self.lanes} x i64>"
                scaled = self._narrowed(str(self.name_of(variable)), wide, type_)
                if factor != 1:
                    scaled = fn.op(f"mul {type_} {scaled}, splat ({width} {factor})")
                total = fn.op(f"add {type_} {total}, {scaled}")
        return total

    def _narrowed(self, name: str, given: str, wanted: str) -> str:
        if given == wanted:
            return name
        if not name.startswith("%"):
            return str((int(name) + _NARROW) % (2 * _NARROW) - _NARROW)
        return self.function.op(f"trunc {given} {name} to {wanted}")

    def integer(self, index: Affine, type_: ElementType) -> Element:
        """Return an index as an element of an integer type."""
        self.fix(index)
        value: Value = self.scopes.once(
            ("integer", index, type_), index.level, lambda: self._integer(index, type_)
        )
        return Element((value,), index.level)

    def _integer(self, index: Affine, type_: ElementType) -> Value:
        fn = self.function
        width = f"i{type_.bits}"
        if not index.varies:
            name = str(self.scalar(index))
            if type_.bits != 64 and name.startswith("%"):
                name = fn.op(f"trunc i64 {name} to {width}")
            return Value((name,), type_)
        if type_.bits == 64:
            return Value((self.vector(index),), type_, self.lanes)
        name = self.narrow_vector(index)
        if type_.bits != 32:
            name = fn.op(f"trunc <{self.lanes} x i32> {name} to <{self.lanes} x {width}>")
        return Value((name,), type_, self.lanes)


def _widened(fn: Function, value: Value, type_: str, width: str) -> str:
    """An integer as one of at least its width."""
    if f"i{max(8, value.type.bits)}" == width:
        return value.name
    how = "sext" if value.type.is_signed else "zext"
    return fn.op(f"{how} {value.llvm_type} {value.name} to {type_}")
