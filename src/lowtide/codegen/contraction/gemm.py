"""The code of a product that is blocked for caches: phases, blocks, tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lowtide.codegen.contraction.finishing import Finish, Sums, finish_function
from lowtide.codegen.contraction.micro import Vectors, accumulate, broadcast, zeros
from lowtide.codegen.contraction.operands import Position, Side, element_bytes
from lowtide.codegen.contraction.packing import (
    Packer,
    pack_block,
    pack_panel,
    pack_rows,
    pack_transposed,
    packer,
    tail_mask,
)
from lowtide.codegen.contraction.prefetching import ahead_of
from lowtide.codegen.contraction.scheme import Columns, Rows, Scheme
from lowtide.codegen.elements import Elements
from lowtide.codegen.elementwise import memory
from lowtide.codegen.kernel import ARGUMENTS, Code
from lowtide.codegen.operands import bind
from lowtide.codegen.value import Value
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

TILE = "ptr %buffers, ptr %rows, ptr %columns, ptr %sums, i64 %batch, i64 %first, i64 %steps, i64 %column, i1 %more"
"""The parameters of a tile: `%steps` products are added from the vector of units `%first` on.

With `%more` they are added to the sums that are there.
"""


@dataclass(eq=False, slots=True)
class Gemm:
    """A product to be written: its scheme, the operands with rows and columns, what follows."""

    scheme: Scheme
    target: Target
    rows: Side
    columns: Side
    finish: Finish
    functions: dict[str, Function] = field(default_factory=dict)
    globals: dict[str, str] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return self.scheme.tile.lanes

    # -- the functions that the phases call ------------------------------------------------------

    def needed(self, name: str, write: Callable[[str], Function]) -> str:
        """Return the name of a function, which is written once."""
        if name not in self.functions:
            self.functions[name] = write(name)
        return name

    def _packer(self, name: str, side: Side, count: int) -> Packer:
        scheme, shape = self.scheme, self.scheme.geometry
        return packer(name, self.target, scheme.how, self.lanes, side, shape.batch, count, shape.k)

    def _noted(self, function: Function, elements: Elements) -> Function:
        """Keep the constants that a function needs."""
        self.globals.update(elements.globals)
        return function

    def pack_rows(self) -> str:
        """Return the function that packs the rows of a block."""
        scheme = self.scheme
        shape = scheme.geometry

        def write(name: str) -> Function:
            pack = self._packer(name, self.rows, shape.m)
            how = pack_rows if scheme.rows is Rows.ALONG_K else pack_block
            return self._noted(how(pack, scheme.row_step), pack.elements)

        return self.needed("pack_rows", write)

    def pack_columns(self, columns: int) -> str:
        """Return the function that packs a panel."""
        scheme = self.scheme
        shape = scheme.geometry

        def write(name: str) -> Function:
            pack = self._packer(name, self.columns, shape.n)
            how = pack_panel if scheme.columns is Columns.ALONG_COLUMNS else pack_transposed
            return self._noted(how(pack, columns, scheme.tile.columns), pack.elements)

        return self.needed(f"pack_{columns}_columns", write)

    def finishing(self, columns: int) -> str:
        """Return the function that finishes the sums of a tile."""
        scheme = self.scheme
        sums = Sums(self.sums_step)

        def write(name: str) -> Function:
            shape = scheme.geometry
            return finish_function(
                name,
                self.target,
                scheme.how,
                self.lanes,
                shape,
                self.finish,
                columns,
                sums,
                self.globals,
            )

        return self.needed(f"finish_{columns}", write)

    def tile(self, rows: int, columns: int) -> str:
        """Return the function of a tile."""
        return self.needed(f"tile_{rows}x{columns}", lambda name: self._tile(name, rows, columns))

    # -- sums ------------------------------------------------------------------------------------

    @property
    def sums_step(self) -> int:
        """Sums between the rows of a tile where it is added up."""
        scheme = self.scheme
        if scheme.keeps_sums:
            return scheme.sums_step
        if scheme.has_finish and not scheme.is_shared:
            return scheme.tile.columns
        return scheme.geometry.n

    def _tile(self, name: str, rows: int, columns: int) -> Function:
        scheme, target, lanes = self.scheme, self.target, self.lanes
        how = scheme.how
        fn = Function(name, TILE, linkage="internal")
        elements = Elements(fn, target, lanes)
        vectors = -(-columns // lanes)
        masks = [tail_mask(lanes, columns - j * lanes) for j in range(vectors)]

        def place(i: int, j: int) -> str:
            return fn.gep("%sums", (i * self.sums_step + j * lanes) * how.unit_bytes)

        def loaded() -> list[str]:
            found = []
            for i in range(rows):
                for j in range(vectors):
                    mask = masks[j].name if masks[j] is not None else None
                    value = memory.load(fn, target, how.total, place(i, j), lanes, mask)
                    found += value.names
            return found

        start = zeros(how, rows, vectors, lanes)
        if scheme.shares.longest > 1:
            type_ = f"<{lanes} x {how.sum_type}>"
            count = rows * vectors * how.planes
            names = fn.choose("%more", [type_] * count, loaded, lambda: ["zeroinitializer"] * count)
            rest = iter(names)
            start = [
                [tuple([next(rest) for _ in range(how.planes)]) for _ in range(vectors)]
                for _ in range(rows)
            ]
        steps: Integer = scheme.steps if scheme.blocks.parts == 1 else "%steps"
        sums = accumulate(
            fn,
            target,
            how,
            lanes,
            elements.loop,
            steps,
            start,
            self._row_fetch(fn, rows),
            self._column_fetch(elements, columns),
        )
        for i in range(rows):
            for j in range(vectors):
                mask = masks[j].name if masks[j] is not None else None
                memory.store(fn, target, Value(sums[i][j], how.total, lanes), place(i, j), mask)
        return self._noted(fn, elements)

    def _row_fetch(self, fn: Function, rows: int) -> Callable[[Integer, int], Vectors]:
        """How a tile reads the units of its rows."""
        how, lanes = self.scheme.how, self.lanes
        step_bytes, row_bytes, align = self._row_steps()
        known: dict[Integer, str] = {}

        def fetch(step: Integer, row: int) -> Vectors:
            if step not in known:
                known[step] = fn.gep("%rows", fn.mul(step, step_bytes))
            return broadcast(fn, how, known[step], row * row_bytes, lanes, align)

        return fetch

    def _row_steps(self) -> tuple[int, int, int]:
        """Bytes between steps and between rows, and the alignment of units."""
        scheme, side = self.scheme, self.rows
        how = scheme.how
        if scheme.rows is Rows.ALONG_K:
            return how.unit_bytes, scheme.row_step * how.unit_bytes, how.unit_bytes // how.planes
        if scheme.rows is Rows.ALONG_ROWS:
            return scheme.row_step * how.unit_bytes, how.unit_bytes, how.unit_bytes // how.planes
        assert side.view is not None
        along, across = side.view.single(side.roles.inner), side.view.single(side.roles.free)
        assert along is not None and across is not None
        size = element_bytes(side.type)
        return along * size * how.group, across * size, size // how.planes

    def _column_fetch(self, elements: Elements, columns: int) -> Callable[[Integer, int], Vectors]:
        """How a tile reads vectors of its columns."""
        fn, scheme, lanes = elements.function, self.scheme, self.lanes
        if scheme.columns is Columns.DIRECT:
            return self._direct_fetch(elements, columns)
        how = scheme.how
        row = scheme.tile.columns * how.unit_bytes

        def fetch(step: Integer, vector: int) -> Vectors:
            there = fn.gep(fn.gep("%columns", fn.mul(step, row)), vector * lanes * how.unit_bytes)
            if how.group == 1:
                return memory.load(fn, self.target, how.total, there, lanes).names
            return (fn.load(f"<{lanes} x {how.unit}>", there, how.unit_bytes),)

        return fetch

    def _direct_fetch(self, elements: Elements, columns: int) -> Callable[[Integer, int], Vectors]:
        scheme, lanes = self.scheme, self.lanes
        shape = scheme.geometry
        reader = self.columns.reader(elements, scheme.how)
        batch = elements.variable("%batch", shape.batch)
        start = elements.variable("%column", shape.n)
        first = elements.variable("%first", scheme.blocks.size) * lanes
        lane = elements.variable(0, lanes, is_lane=True)
        fn = elements.function
        ask = ahead_of(fn, self.columns, "%column", fn.mul("%first", lanes), columns)

        def fetch(step: Integer, vector: int) -> Vectors:
            if vector == 0:
                ask(step)
            k = first + elements.variable(step, max(1, shape.k))
            free = Position(start + vector * lanes, lane, is_aligned=True)
            mask = tail_mask(lanes, columns - vector * lanes)
            inner = Position(k.within(0, max(0, shape.k - 1)))
            value = reader.at(batch, free, inner, mask)
            return (value if value.lanes else elements.splat(value, elements.level)).names

        return fetch


# -- phases ----------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Piece:
    """A piece of work while its code is written: indices and addresses."""

    batch: Integer
    share: Integer
    row_block: Integer
    column_block: Integer
    thread: str
    rows_base: str = ""
    sums_base: str = ""
    is_new: str = ""
    """An i1: whether it needs another packed block than the piece before; "" where all do."""


def gemm_code(gemm: Gemm) -> Code:
    """Return the code of a product: a phase, and one more that adds up the sums of shares."""
    scheme = gemm.scheme
    main = _products(gemm)
    phases = [Phase(main.name, scheme.units, scheme.unit_seconds)]
    functions = [main]
    if scheme.is_shared:
        last, units, seconds = _put_together(gemm)
        functions.append(last)
        phases.append(Phase(last.name, units, seconds))
    text = "\n".join(gemm.globals.values())
    return Code((*gemm.functions.values(), *functions), tuple(phases), text)


def _products(gemm: Gemm) -> Function:
    """The phase that multiplies; what was packed for one piece serves the next one if it can."""
    fn = Function("products", ARGUMENTS)
    scheme = gemm.scheme
    thread = fn.gep("%scratch", scheme.shared_bytes)
    thread = fn.gep(thread, fn.mul("%thread", scheme.thread_bytes))
    with fn.loop("%begin", "%end", 1, [("i64", "-1")]) as loop:
        piece = _piece(fn, scheme, loop.index, thread)
        if scheme.reuses:
            packed = fn.div(loop.index, scheme.reuses)
            piece.is_new = fn.compare("ne", packed, loop.values[0])
            loop.next = [str(packed)]
        if scheme.rows is Rows.IN_PLACE:
            piece.rows_base = gemm.rows.address(fn, piece.batch)
        piece.sums_base = _sums_base(fn, gemm, piece)
        _blocks(fn, gemm, piece)
    return fn


def _piece(fn: Function, scheme: Scheme, number: Integer, thread: str) -> _Piece:
    """Take the number of a piece apart; pieces that need the same packed block follow each other."""
    counts = [scheme.row_blocks.parts, scheme.column_blocks.parts]
    if scheme.rows is not Rows.IN_PLACE:
        counts.reverse()
    found = []
    for parts in (*counts, scheme.shares.parts):
        found.append(fn.rem(number, parts))
        number = fn.div(number, parts)
    row_block, column_block, share = found
    if scheme.rows is not Rows.IN_PLACE:
        row_block, column_block = column_block, row_block
    batch = 0 if scheme.geometry.batch == 1 else number
    return _Piece(batch, share, row_block, column_block, thread)


def _sums_base(fn: Function, gemm: Gemm, piece: _Piece) -> str:
    """The address of the sums of the first row and column: of the piece, or of the matrix."""
    scheme = gemm.scheme
    shape = scheme.geometry
    size = shape.m * shape.n * scheme.how.unit_bytes
    if scheme.is_shared:
        number = fn.add(fn.mul(piece.share, shape.batch), piece.batch)
        return fn.gep("%scratch", fn.mul(number, size))
    if scheme.keeps_sums:
        return fn.gep(piece.thread, scheme.row_bytes + scheme.panel_bytes)
    if scheme.has_finish:
        nbytes = scheme.tiles.longest * scheme.tile.columns * scheme.how.unit_bytes
        return fn.stack("i8", nbytes)
    out = bind(fn, gemm.finish.kernel).results[0].pointer
    return fn.gep(out, fn.mul(piece.batch, size))


def _blocks(fn: Function, gemm: Gemm, piece: _Piece) -> None:
    """The blocks of k of a piece, and in each of them the panels."""
    scheme = gemm.scheme
    first_block, last_block = scheme.shares.starts(fn, piece.share)
    tiles = scheme.row_blocks.starts(fn, piece.row_block)
    row = scheme.tiles.start(fn, tiles[0])
    panels = scheme.column_blocks.starts(fn, piece.column_block)
    with fn.loop(first_block, last_block) as loop:
        first, after = scheme.blocks.starts(fn, loop.index)
        lanes = scheme.tile.lanes
        steps = fn.sub(fn.min(fn.mul(after, lanes), scheme.steps), fn.mul(first, lanes))
        block = _Block(fn, gemm, piece, first, steps, loop.index, first_block, tiles, row, panels)
        if scheme.rows is not Rows.IN_PLACE:
            block.pack_rows()
        block.write()


@dataclass(eq=False, slots=True)
class _Block:
    """A block of k of a piece while its code is written."""

    fn: Function
    gemm: Gemm
    piece: _Piece
    first: Integer
    steps: Integer
    number: Integer
    first_number: Integer
    tiles: tuple[Integer, Integer]
    row: Integer
    panels: tuple[Integer, Integer]

    def pack_rows(self) -> None:
        """Pack the rows of the piece."""
        fn, gemm = self.fn, self.gemm
        end = gemm.scheme.tiles.start(fn, self.tiles[1])
        given = (self.piece.thread, self.piece.batch, self.row, fn.sub(end, self.row))
        self._pack(gemm.pack_rows(), *given, self.piece.is_new)

    def _pack(
        self, name: str, to: str, batch: Integer, start: Integer, count: Integer, where: str
    ) -> None:
        call = (
            f"call void @{name}(ptr %buffers, ptr {to}, i64 {batch}, i64 {start}, i64 {count}, "
            f"i64 {self.first}, i64 {self.steps})"
        )
        if not where:
            self.fn.do(call)
            return
        with self.fn.when(where):
            self.fn.do(call)

    def write(self) -> None:
        """Write the loops over panels: the full ones, then the last one if it is narrower."""
        fn, scheme = self.fn, self.gemm.scheme
        full = scheme.panels - (scheme.last_columns != scheme.tile.columns)
        if full:
            stop = self.panels[1] if full == scheme.panels else fn.min(self.panels[1], full)
            with fn.loop(self.panels[0], stop) as loop:
                self._panel(loop.index, scheme.tile.columns)
        if full == scheme.panels:
            return
        if full == 0:
            self._panel(0, scheme.last_columns)
            return
        if isinstance(self.panels[1], int):
            self._panel(full, scheme.last_columns)
            return
        with fn.when(fn.compare("eq", self.panels[1], scheme.panels)):
            self._panel(full, scheme.last_columns)

    def _panel(self, panel: Integer, columns: int) -> None:
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        column = fn.mul(panel, scheme.tile.columns)
        to = fn.gep(self.piece.thread, scheme.row_bytes)
        if scheme.columns is not Columns.DIRECT:
            name = gemm.pack_columns(columns)
            where = self.piece.is_new if scheme.rows is Rows.IN_PLACE else ""
            self._pack(name, to, self.piece.batch, column, columns, where)
        longer, longest = scheme.tiles.longer, scheme.tiles.longest
        if longer:
            with fn.loop(self.tiles[0], fn.min(self.tiles[1], longer)) as loop:
                self._tile(fn.mul(loop.index, longest), column, to, longest, columns)
        start = fn.max(self.tiles[0], longer) if longer else self.tiles[0]
        with fn.loop(start, self.tiles[1]) as loop:
            row = fn.add(fn.mul(loop.index, scheme.tiles.short), longer)
            self._tile(row, column, to, scheme.tiles.short, columns)

    def _tile(self, row: Integer, column: Integer, packed: str, rows: int, columns: int) -> None:
        if not rows:
            return
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        sums = self._sums(row, column)
        more = fn.compare("sgt", self.number, self.first_number)
        name = gemm.tile(rows, columns)
        fn.do(
            f"call void @{name}(ptr %buffers, ptr {self._rows(row)}, ptr {packed}, ptr {sums}, "
            f"i64 {self.piece.batch}, i64 {self.first}, i64 {self.steps}, i64 {column}, i1 {more})"
        )
        if not scheme.has_finish or scheme.is_shared:
            return
        finish = (
            f"call void @{gemm.finishing(columns)}(ptr %buffers, ptr {sums}, "
            f"i64 {self.piece.batch}, i64 {row}, i64 {rows}, i64 {column})"
        )
        if scheme.blocks.parts == 1:
            fn.do(finish)
            return
        with fn.when(fn.compare("eq", self.number, scheme.blocks.parts - 1)):
            fn.do(finish)

    def _rows(self, row: Integer) -> str:
        """The address of the first unit of a tile's rows."""
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        step, across, _ = gemm._row_steps()
        if scheme.rows is Rows.IN_PLACE:
            first = fn.mul(self.first, scheme.tile.lanes * step)
            return fn.gep(self.piece.rows_base, fn.add(fn.mul(row, across), first))
        return fn.gep(self.piece.thread, fn.mul(fn.sub(row, self.row), across))

    def _sums(self, row: Integer, column: Integer) -> str:
        """The address of the first sum of a tile."""
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        if scheme.has_finish and not scheme.is_shared:
            if not scheme.keeps_sums:
                return self.piece.sums_base
            first = fn.mul(self.panels[0], scheme.tile.columns)
            row, column = fn.sub(row, self.row), fn.sub(column, first)
        at = fn.add(fn.mul(row, gemm.sums_step), column)
        return fn.gep(self.piece.sums_base, fn.mul(at, scheme.how.unit_bytes))


def _put_together(gemm: Gemm) -> tuple[Function, int, float]:
    """The phase that adds up the sums of all shares; its pieces are rows of the matrices."""
    scheme = gemm.scheme
    shape = scheme.geometry
    part = shape.batch * shape.m * shape.n
    sums = Sums(shape.n, scheme.shares.parts, part)
    name = gemm.needed(
        "put_together",
        lambda name: finish_function(
            name,
            gemm.target,
            scheme.how,
            gemm.lanes,
            shape,
            gemm.finish,
            shape.n,
            sums,
            gemm.globals,
        ),
    )
    fn = Function("results", ARGUMENTS)
    with fn.loop("%begin", "%end") as loop:
        batch = 0 if shape.batch == 1 else fn.div(loop.index, shape.m)
        row = fn.rem(loop.index, shape.m) if shape.batch > 1 else loop.index
        at = fn.mul(loop.index, shape.n * scheme.how.unit_bytes)
        there = fn.gep("%scratch", at)
        fn.do(f"call void @{name}(ptr %buffers, ptr {there}, i64 {batch}, i64 {row}, i64 1, i64 0)")
    units = shape.batch * shape.m
    return fn, units, shape.n * scheme.shares.parts * 0.3e-9 + 5e-9
