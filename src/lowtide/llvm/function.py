"""A function in LLVM's textual IR under construction: straight code, loops, conditions.

Text is written since that takes a thirtieth of the time of building llvmlite's objects. Values are
the names of LLVM values or constants ("%v.12", "7"). Python ints are 64-bit integers known while
compiling, and integer arithmetic here folds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from lowtide.llvm.callee import (
    GROUP,
    Callee,
    CallError,
    FunctionParameter,
    Repeats,
    call_template,
    external,
    fenced,
    intrinsic,
)
from lowtide.llvm.direct_addresses import buffer_loads
from lowtide.llvm.loops import OPEN, Loop, phi, phis, trips
from lowtide.llvm.loops import Integer as Integer  # Files that write functions take it from here.
from lowtide.llvm.strength import KnownSums, reduced

_CONSTANTS: Final[dict[Integer, str]] = {"true": "i1", "false": "i1", "null": "ptr"}
"""The types of constants that have one."""

_PREFETCH: Final = external("llvm.prefetch.p0", "void", "ptr", *["i32 immarg"] * 3)


class Function:
    """A function, which other functions of its module can call; `returns` is a type ("void").

    Names that it makes have a dot, so that they never clash with those of parameters.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[FunctionParameter] = (),
        returns: str = "void",
        attributes: str = "nounwind",
        linkage: str = "",
    ) -> None:
        self.name = name
        self.parameters = tuple(parameters)
        self.types = tuple([x.type for x in parameters])
        self.returns = returns
        self.attributes = attributes
        self.linkage = linkage
        self.lines: list[str] = []
        self.globals: dict[str, None] = {}
        """Declarations of what is called, and definitions of constants."""
        self.called: dict[Function, None] = {}
        """Functions of its module, in the order of calls."""
        self.block = "entry"
        self.allocas: list[str] = []
        self.buffers: dict[int, str] = {}  # Addresses by number, loaded where used at all.
        self.sums, self.repeats = KnownSums(), Repeats()
        self._hidden: dict[tuple[int, int], str] = {}
        self._loops = self._count = 0  # Loops that are written, and names.
        self._closed = self.has_halves = False  # Whether numbers in it were made of halves.
        self.shuffled: set[str] = set()
        """Long vectors that were shuffled, so that fences are where they come from."""
        self._known = _CONSTANTS.copy()
        """The types of values, so far as calls check them."""
        for parameter in parameters:
            self._known[f"%{parameter.name}"] = parameter.type

    @property
    def template(self) -> str:
        """How a call of it is written, for `str.format` with the names of its values."""
        return call_template(self.returns, f"@{self.name}", self.types)

    # -- lines ---------------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        """Return a name that is not taken."""
        self._count += 1
        return f"%{hint}.{self._count}"

    def op(self, text: str) -> str:
        """Write an instruction, and return the name of its value."""
        self._count += 1
        name = f"%v.{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a value."""
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def fresh_label(self, hint: str) -> str:
        """Return a name for a block."""
        return self.fresh(hint)[1:]

    def ret(self, type_: str, value: str) -> None:
        """Return a value from the function, which ends here."""
        self.do(f"ret {type_} {value}")
        self._closed = True

    def stack(self, type_: str, count: int = 1, align: int = 64) -> str:
        """Return a pointer to `count` elements on the stack, for as long as the function runs."""
        name = self.fresh("stack")
        self._known[name] = "ptr"
        self.allocas.append(f"  {name} = alloca {type_}, i64 {count}, align {align}")
        return name

    def hidden(self, value: int, lanes: int = 0) -> str:
        """Return an i32, or vectors of it, that LLVM does not know, made once at the start."""
        if (value, lanes) not in self._hidden:
            name = self._hidden[value, lanes] = self.fresh("hidden")
            type_ = self._known[name] = f"<{lanes} x i32>" if lanes else "i32"
            to, given = ("v", f"splat (i32 {value})") if lanes else ("r", value)
            self.allocas.append(f'  {name} = call {type_} asm "", "={to},0"({type_} {given})')
        return self._hidden[value, lanes]

    # -- calls ---------------------------------------------------------------------------------

    def define(self, line: str) -> None:
        """Note a constant that the module has to define, written as in IR; it is an address."""
        self.globals[line] = None
        self._known[line.partition(" ")[0]] = "ptr"

    def call(self, callee: Callee | Function, values: Sequence[Integer]) -> str:
        """Call a function; return the name of its result, "" where it has none.

        Raises CallError where the number of values is wrong, or the type of one, so far as it is
        known: of ints, parameters, addresses, results of loads and calls.
        """
        if int in map(type, values):
            self._check_ints(callee, values)
        return self._write_call(callee, values)

    def intrinsic(self, name: str, type_: str, *values: str) -> str:
        """Call an intrinsic overloaded on one type, which all operands and the result have."""
        return self._write_call(intrinsic(name, type_, len(values)), values)

    def _write_call(self, callee: Callee | Function, values: Sequence[Integer]) -> str:
        types, known = callee.types, self._known
        if len(types) != len(values) or tuple(map(known.get, values, types)) != types:
            raise self._refusal(callee, values)
        if isinstance(callee, Function):
            self.called[callee] = None
        elif callee.declaration:
            self.globals[callee.declaration] = None
        text = callee.template.format(*values)
        if callee.returns == "void":
            self.lines.append(f"  {text}")
            return ""
        name = self.op(text)
        known[name] = callee.returns
        return name

    def _check_ints(self, callee: Callee | Function, values: Sequence[Integer]) -> None:
        """Raise CallError where an int is given for anything but an integer."""
        for type_, value in zip(callee.types, values, strict=False):
            if isinstance(value, int) and type_[0] != "i":
                raise self._refusal(callee, values)

    def _refusal(self, callee: Callee | Function, values: Sequence[Integer]) -> CallError:
        """The error for values that are not what is called takes."""
        taken = callee.template.format(*["_"] * len(callee.types))
        given = ", ".join([f"{self._known.get(x, '')} {x}".strip() for x in values])
        return CallError(f"{self.name} writes '{taken}' with the values ({given})")

    # -- 64-bit integers, folded ---------------------------------------------------------------

    def add(self, a: Integer, b: Integer) -> Integer:
        """Return a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        name = self.op(f"add nsw i64 {a}, {b}")
        self.sums.add(name, a, b)
        return name

    def sub(self, a: Integer, b: Integer) -> Integer:
        """Return a - b."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if b == 0:
            return a
        name = self.op(f"sub nsw i64 {a}, {b}")
        self.sums.add(name, a, b, -1)
        return name

    def mul(self, a: Integer, b: Integer) -> Integer:
        """Return a * b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        name = self.op(f"mul nsw i64 {a}, {b}")
        self.sums.multiply(name, a, b)
        return name

    def div(self, a: Integer, b: int) -> Integer:
        """Return a // b for a >= 0, b > 0."""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else self.op(f"udiv i64 {a}, {b}")

    def rem(self, a: Integer, b: int) -> Integer:
        """Return a % b for a >= 0, b > 0."""
        if isinstance(a, int):
            return a % b
        return 0 if b == 1 else self.op(f"urem i64 {a}, {b}")

    def min(self, a: Integer, b: Integer) -> Integer:
        """Return the lesser of two signed integers."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.intrinsic("smin", "i64", str(a), str(b))

    def max(self, a: Integer, b: Integer) -> Integer:
        """Return the greater of two signed integers."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.intrinsic("smax", "i64", str(a), str(b))

    def compare(self, predicate: str, a: Integer, b: Integer) -> str:
        """Return an i1: `a predicate b` for 64-bit integers."""
        return self.op(f"icmp {predicate} i64 {a}, {b}")

    def select(self, condition: str, type_: str, a: Integer, b: Integer) -> str:
        """Return a where the condition, an i1, holds, else b."""
        return self.op(f"select i1 {condition}, {type_} {a}, {type_} {b}")

    # -- memory --------------------------------------------------------------------------------

    def gep(self, base: str, index: Integer, element: str = "i8") -> str:
        """Return the address of an element behind `base`."""
        if index == 0:
            return base
        name = self.op(f"getelementptr inbounds {element}, ptr {base}, i64 {index}")
        self._known[name] = "ptr"
        self.sums.place(name, base, index, element)
        return name

    def load(self, type_: str, pointer: str, align: int) -> str:
        """Load a value whose address is a multiple of `align` bytes."""
        name = self.op(f"load {type_}, ptr {pointer}, align {align}")
        self._known[name] = type_
        return name

    def store(self, type_: str, value: Integer, pointer: str, align: int) -> None:
        """Store a value at an address that is a multiple of `align` bytes."""
        self.do(f"store {type_} {value}, ptr {pointer}, align {align}")

    def prefetch(self, pointer: str, cache: int, *, write: bool = False) -> None:
        """Ask for the line at an address, to read or `write` it, into the first or second cache."""
        self.call(_PREFETCH, [pointer, int(write), 4 - cache, 1])

    def splat(self, type_: str, value: str, lanes: int) -> str:
        """Return a vector with a scalar of a type in each lane."""
        vector = f"<{lanes} x {type_}>"
        one = self.op(f"insertelement {vector} poison, {type_} {value}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.op(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def shuffle(self, type_: str, a: str, b: str, lanes: Iterable[int]) -> str:
        """Return the lanes, numbered through both vectors; -1 is any value."""
        a, b, order = fenced(self, type_, a, b, list(lanes))
        taken = ["i32 poison" if x < 0 else f"i32 {x}" for x in order]
        mask = f"<{len(taken)} x i32> <{', '.join(taken)}>"
        name = self.op(f"shufflevector {type_} {a}, {type_} {b}, {mask}")
        if len(order) > GROUP:
            self.shuffled.add(name)
        return name

    # -- control flow --------------------------------------------------------------------------

    @contextmanager
    def loop(
        self,
        start: Integer,
        stop: Integer,
        step: Integer = 1,
        carry: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Loop]:
        """Write a loop over range(start, stop, step), which carries pairs of type and value.

        A loop known to run once is no loop. One known never to run is not written.
        """
        count = trips(start, stop, step)
        values = [value for _, value in carry]
        if count is not None and count <= 1:
            with self._straight(start, values, count) as loop:
                yield loop
            return
        head, done = self.fresh_label("head"), self.fresh_label("done")
        loop = Loop(self.fresh("i"), [self.fresh("c") for _ in carry], [], [])
        loop.next = list(loop.values)
        loop.entry = self.block
        outside, self.lines = self.lines, []
        self.label(head)
        if count is None:
            body = self.fresh_label("body")
            test = self.compare("slt", loop.index, stop)
            self.do(f"br i1 {test}, label %{body}, label %{done}")
            self.label(body)
        loops = self._loops
        yield loop
        latch = self.block
        multiples, mark = dict[str, tuple[Integer, Integer]](), OPEN
        if loops == self._loops:
            if any(" = trunc i64 " in x for x in self.lines):
                mark = ""  # LLVM counts in narrower integers where addresses come from such.
            else:
                multiples = self._multiples(loop, start, step)
        counted = {str(loop.index): (start, step), **multiples}
        following = [self.op(f"add nsw i64 {x}, {y}{mark}") for x, (_, y) in counted.items()]
        if count is None:
            self.do(f"br label %{head}")
            loop.results = list(loop.values)
        else:
            again = self.compare("slt", following[0], stop)
            self.do(f"br i1 {again}, label %{head}, label %{done}")
            loop.results = list(loop.next)
        own = [
            phi("i64", name, first, loop.entry, after, latch)
            for (name, (first, _)), after in zip(counted.items(), following, strict=True)
        ]
        self._close(loop, head, done, [*own, *phis(loop, carry, latch)], outside)

    def _multiples(
        self, loop: Loop, start: Integer, step: Integer
    ) -> dict[str, tuple[Integer, Integer]]:
        """Write the addresses of an innermost loop anew; return what it carries for them.

        That is the start and the step of each multiple of the counter, by name. Kernels of GPUs
        stay as they are: registers are what counts there.
        """
        if self.linkage == "ptx_kernel":
            return {}
        found = reduced(self, loop, self.lines, start, step)
        self.lines = found.body
        return found.carried

    @contextmanager
    def repeat(self, carry: Sequence[tuple[str, str]] = ()) -> Iterator[Loop]:
        """Write what runs once, and once more as long as `again` holds; it has no index."""
        head, done = self.fresh_label("head"), self.fresh_label("done")
        values = [self.fresh("c") for _ in carry]
        loop = Loop(0, values, list(values), [], entry=self.block)
        outside, self.lines = self.lines, []
        self.label(head)
        yield loop
        loop.results, latch = list(loop.next), self.block
        self.do(f"br i1 {loop.again}, label %{head}, label %{done}")
        self._close(loop, head, done, phis(loop, carry, latch), outside)

    def _close(self, loop: Loop, head: str, done: str, phis: list[str], outside: list[str]) -> None:
        """Put what stands ahead of a loop, and then the loop, behind what is outside of it."""
        self._loops += 1
        written, self.lines = self.lines, outside
        self.lines += [*loop.ahead, f"  br label %{head}", written[0], *phis, *written[1:]]
        self.label(done)

    @contextmanager
    def _straight(self, start: Integer, values: list[str], trips: int) -> Iterator[Loop]:
        """A block of its own, so that what is written ahead of it can have blocks, too."""
        once = self.fresh_label("once")
        loop = Loop(start, list(values), list(values), list(values), entry=self.block)
        outside, self.lines = self.lines, []
        self.label(once)
        yield loop
        written, self.lines = self.lines, outside
        self.lines += loop.ahead
        if not trips:
            self.block = loop.entry
            return
        self.do(f"br label %{once}")
        self.lines += written
        loop.results = list(loop.next)

    @contextmanager
    def before(self, loop: Loop) -> Iterator[None]:
        """Write ahead of a loop that is being written, after what was written there before."""
        inside, self.lines = self.lines, loop.ahead
        block, self.block = self.block, loop.entry
        yield
        loop.entry, self.block = self.block, block
        loop.ahead, self.lines = self.lines, inside

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Write what runs only where an i1 holds."""
        then, after = self.fresh_label("then"), self.fresh_label("after")
        self.do(f"br i1 {condition}, label %{then}, label %{after}")
        self.label(then)
        yield
        self.do(f"br label %{after}")
        self.label(after)

    def choose(
        self,
        condition: str,
        types: Sequence[str],
        then: Callable[[], Sequence[str]],
        otherwise: Callable[[], Sequence[str]],
    ) -> list[str]:
        """Write two branches of which one runs; return the values that it returned."""
        yes, no, after = (self.fresh_label(x) for x in ("yes", "no", "after"))
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
        found = []
        for label, branch in ((yes, then), (no, otherwise)):
            self.label(label)
            values = branch()
            found.append((values, self.block))
            self.do(f"br label %{after}")
        self.label(after)
        (a, a_block), (b, b_block) = found
        return [
            self.op(f"phi {type_} [ {x}, %{a_block} ], [ {y}, %{b_block} ]")
            for type_, x, y in zip(types, a, b, strict=True)
        ]

    # -- the text ------------------------------------------------------------------------------

    def text(self) -> str:
        """The definition; a function that returns nothing gets its `ret`."""
        parameters = ", ".join([x.text for x in self.parameters])
        lines = [
            f"define {self.linkage} {self.returns} @{self.name}({parameters}) {self.attributes} {{",
            "entry:",
            *self.allocas,
            *buffer_loads(self.buffers, self.lines),
            *self.lines,
            *([] if self._closed else ["  ret void"]),
            "}",
        ]
        return "\n".join([*lines, ""])


def module_text(functions: Iterable[Function], constants: str = "") -> str:
    """Return a module: constants, what the functions need of it, and the functions.

    Raises CallError where one calls a function that is not among them.
    """
    functions = list(functions)
    defined = {function.name: function for function in functions}
    needed: dict[str, None] = {}
    for function in functions:
        needed |= function.globals
        for one in [x for x in function.called if defined.get(x.name) is not x]:
            raise CallError(f"{function.name} calls @{one.name}, which its module does not define")
    parts = [constants, "\n".join(sorted(needed)), *[x.text() for x in functions]]
    return "\n".join([x for x in parts if x])
