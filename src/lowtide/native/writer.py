"""Instructions of one function in LLVM's textual IR."""

from __future__ import annotations

from typing import Final, NamedTuple

from lowtide.native.kinds import BOOL, NOTHING, Int, Kind, memory_type, size_in_memory, value_type


class NativeValue(NamedTuple):
    """What an expression comes to: LLVM's name of it, or a constant."""

    kind: Kind
    text: str


NONE = NativeValue(NOTHING, "null")


FIRST_BLOCK: Final = "entry.0"
"""The label of the first block, which no parameter can have for a name."""


class Writer:
    """The lines of a function; `is_open` says whether the present block still goes on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.beginning: list[str] = []
        self.first: set[str] = set()
        """Values that are known where the function begins."""
        self.is_open = True
        self.block = FIRST_BLOCK
        self._count = 0

    def fresh(self, hint: str = "v") -> str:
        """Return a name that is not taken; its dot keeps it apart from those of parameters."""
        self._count += 1
        return f"{hint}.{self._count}"

    def op(self, text: str) -> str:
        """Write an instruction; return the name of its value."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a value."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin a block, to which the one before goes on if it is open."""
        if self.is_open:
            self.jump(name)
        self.lines.append(f"{name}:")
        self.block, self.is_open = name, True

    def jump(self, label: str) -> None:
        """Go on at a label."""
        self.do(f"br label %{label}")
        self.is_open = False

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Go on at one of two labels."""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
        self.is_open = False

    def alloca(self, type_: str, count: int = 1) -> str:
        """Return the address of memory on the stack."""
        name = f"%{self.fresh('stack')}"
        self.beginning.append(f"  {name} = alloca {type_}, i64 {count}, align 8")
        return name

    def at_first(self, text: str) -> str:
        """Write an instruction where the function begins; return the name of its value."""
        name = f"%{self.fresh('first')}"
        self.beginning.append(f"  {name} = {text}")
        self.first.add(name)
        return name

    def move(self, base: str, nbytes: str | int) -> str:
        """Return the address so many bytes further."""
        if nbytes in (0, "0"):
            return base
        return self.op(f"getelementptr i8, ptr {base}, i64 {nbytes}")

    def widened(self, kind: Kind, found: str) -> NativeValue:
        """Return what was read from memory, or given or returned, as a value of 64 bits."""
        if isinstance(kind, Int) and kind.passed:
            found = self.op(f"bitcast {kind.passed} {found} to i{kind.bits}")
            return self.widened(Int(kind.bits, signed=False), found)
        if isinstance(kind, Int) and kind.bits < 64:
            how = "sext" if kind.signed else "zext"
            return NativeValue(Int(), self.op(f"{how} i{kind.bits} {found} to i64"))
        return NativeValue(kind, found)

    def narrowed(self, kind: Kind, text: str) -> str:
        """Return a value as it lies in memory, or is given or returned."""
        if isinstance(kind, Int) and kind.passed:
            bits = self.narrowed(Int(kind.bits), text)
            return self.op(f"bitcast i{kind.bits} {bits} to {kind.passed}")
        if isinstance(kind, Int) and kind.bits < 64:
            return self.op(f"trunc i64 {text} to i{kind.bits}")
        return text

    def load(self, kind: Kind, place: str, order: str = "") -> NativeValue:
        """Read from memory, atomically where an order is named."""
        type_, align = memory_type(kind), size_in_memory(kind)
        how = f"atomic {type_}, ptr {place} {order}" if order else f"{type_}, ptr {place}"
        found = self.op(f"load {how}, align {align}")
        if kind == BOOL:
            return NativeValue(BOOL, self.op(f"icmp ne i8 {found}, 0"))
        return self.widened(kind, found)

    def in_memory(self, kind: Kind, text: str) -> str:
        """Return the type and the value as they are written to memory."""
        if kind == BOOL:
            return f"i8 {self.op(f'zext i1 {text} to i8')}"
        return f"{memory_type(kind)} {self.narrowed(kind, text)}"

    def store(self, kind: Kind, text: str, place: str, order: str = "") -> None:
        """Write to memory, atomically where an order is named."""
        what, align = self.in_memory(kind, text), size_in_memory(kind)
        if order:
            self.do(f"store atomic {what}, ptr {place} {order}, align {align}")
        else:
            self.do(f"store {what}, ptr {place}, align {align}")

    def phi(self, kind: Kind, incoming: list[tuple[str, str]]) -> NativeValue:
        """Return the value of the block from which this one is reached."""
        sides = ", ".join([f"[ {text}, %{block} ]" for text, block in incoming])
        return NativeValue(kind, self.op(f"phi {value_type(kind)} {sides}"))
