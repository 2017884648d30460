"""Products of few rows with columns that lie side by side: long strips of rows, added to sums.

Some steps of k at once are read along the columns, as they lie, and their products added to sums
that stay in a cache. So memory comes in long runs, however far apart the steps of k lie.
"""

from __future__ import annotations

from lowtide.codegen.cpu.contraction.finishing import Sums
from lowtide.codegen.cpu.contraction.held_columns import HeldColumnsWriter
from lowtide.codegen.cpu.contraction.packing import pack_rows
from lowtide.codegen.cpu.contraction.product import ContractionProduct
from lowtide.codegen.cpu.contraction.strip_scheme import STACK_BYTES, StripScheme
from lowtide.codegen.cpu.contraction.strip_writer import STRIP, StripWriter
from lowtide.codegen.kernel import ARGUMENTS, KernelCode
from lowtide.llvm.function import Function, Integer


class Strips(ContractionProduct[StripScheme]):
    """A product by strips, to be written."""

    def code(self) -> KernelCode:
        """Return the code."""
        return self.code_of(self._products())

    def _products(self) -> Function:
        scheme, shape = self.scheme, self.scheme.geometry
        fn = Function("products", ARGUMENTS)
        thread = self.thread(fn)
        on_stack = 0 < scheme.sums_bytes <= STACK_BYTES
        sums = fn.stack("i8", scheme.sums_bytes) if on_stack else thread
        packed = fn.gep(thread, scheme.far_sums_bytes) if scheme.packs_rows else "null"
        with fn.loop("%begin", "%end", 1, [("i64", "-1")]) as loop:
            strip = fn.rem(loop.index, scheme.strips)
            rest = fn.div(loop.index, scheme.strips)
            share = fn.rem(rest, scheme.shares.parts)
            batch = fn.div(rest, scheme.shares.parts) if shape.batch > 1 else 0
            if scheme.packs_rows:
                loop.next = [str(batch)]
                with fn.when(fn.compare("ne", batch, loop.values[0])):
                    self._pack(fn, packed, batch)
            given = [sums, packed, batch, share, strip]
            last_width = shape.n - (scheme.strips - 1) * scheme.width
            if last_width == scheme.width:
                self._strip_call(fn, given, last_width)
            else:
                is_last = fn.compare("eq", strip, scheme.strips - 1)
                with fn.when(is_last):
                    self._strip_call(fn, given, last_width)
                with fn.when(fn.compare("ne", strip, scheme.strips - 1)):
                    self._strip_call(fn, given, scheme.width)
        return fn

    def _pack(self, fn: Function, to: str, batch: Integer) -> None:
        """Write the packing of the rows of a matrix."""
        scheme, shape = self.scheme, self.scheme.geometry

        def write(name: str) -> Function:
            pack = self.packer(name, self.rows, shape.m)
            return self.noted(pack_rows(pack, scheme.row_step), pack.elements)

        fn.call(self.needed("pack_rows", write), ["%buffers", to, batch, 0, shape.m, 0, shape.k])

    def _strip_call(self, fn: Function, given: list[Integer], width: int) -> None:
        """Write a strip: its sums, packed rows, the batch, the share and its number are given."""
        scheme, shape = self.scheme, self.scheme.geometry
        sums, packed, batch, share, strip = given
        first, last = scheme.shares.starts(fn, share)
        column = fn.mul(strip, scheme.width)
        if scheme.shares.parts > 1:
            matrix = fn.add(fn.mul(share, shape.batch), batch)
            at = fn.add(fn.mul(matrix, shape.m * shape.n), column)
            sums = fn.gep("%scratch", fn.mul(at, scheme.how.unit_bytes))
        fn.call(self._strip(width), ["%buffers", sums, packed, batch, column, first, last])
        if scheme.shares.parts == 1:
            finish = self.finishing(f"finish_{width}", width, Sums(scheme.sums_step))
            fn.call(finish, ["%buffers", sums, batch, 0, shape.m, column])

    def _strip(self, width: int) -> Function:
        kind = HeldColumnsWriter if self.scheme.holds_columns else StripWriter

        def write(name: str) -> Function:
            strip = kind(self, Function(name, STRIP, linkage="internal"), width)
            strip.write()
            return self.noted(strip.fn, strip.elements)

        return self.needed(f"strip_{width}", write)
