"""What code of elements can be written: loads, operations, uses and stores, each with each.

LLVM may end the process that compiles, so forms are compiled in processes of their own.
"""

import ctypes
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from random import Random

from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import Case

from lowtide.codegen.elementwise import emit_op
from lowtide.codegen.elementwise.memory import (
    STREAMED,
    constant,
    gather,
    lane_numbers,
    load,
    scatter_store,
    splat,
    store,
)
from lowtide.codegen.value import Value
from lowtide.ir.attributes import NO_ATTRIBUTES, Compare, ReducePrecision
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer, module_text
from lowtide.llvm.named_targets import NAMED_TARGETS
from lowtide.llvm.routines import routines_of
from lowtide.llvm.short_vectors import with_short_vectors
from lowtide.llvm.target import Target

X86_64 = NAMED_TARGETS["x86-64-v4"]
AVX10 = (*X86_64.features, "avx10.1", "avx512bf16", "avx512fp16", "avx512vbmi", "avx512vnni")
TARGETS = {
    **{x: NAMED_TARGETS[x] for x in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")},
    "avx10": Target(X86_64.triple, "sapphirerapids", tuple(sorted(AVX10)), 64),
}
"""Processors of each family that code is written for. None of them has to be there."""

ANY_LANES = (0, 2, 4, 8, 16, 32, 64)


class Access(Enum):
    """How elements are read, or written."""

    WHOLE = "whole"
    FIRST = "first lanes that a number says"
    RANGE = "lanes between two numbers"
    SHORT = "three first lanes"
    ONE = "the first lane"
    ANYWHERE = "anywhere"
    SOMEWHERE = "anywhere, lanes that a number says"
    ALIGNED = "whole, where a vector's bytes divide the address"
    STREAMED = "whole, past the caches"


READS = [x for x in Access if x not in (Access.ALIGNED, Access.STREAMED)]
SINGLE_READS = [Access.WHOLE, Access.ANYWHERE]
SINGLE_WRITES = [*SINGLE_READS, Access.ALIGNED]


class Use(Enum):
    """What is done with the result of an operation before it is stored."""

    PLAIN = "itself"
    GUARDED = "zero where the mask is not"
    TURNED = "lanes from last to first"
    HALF = "lanes of its lower half twice"
    LANE = "its first lane in all"


@dataclass(frozen=True)
class Form:
    """A loop whose elements are loaded, computed with, used and stored in these ways."""

    case: Case
    lanes: int
    read: Access
    use: Use
    write: Access

    @property
    def accesses(self) -> list[Access]:
        """What needs a mask, each once."""
        guard = [Access.FIRST] if self.use is Use.GUARDED else []
        return list(dict.fromkeys([self.read, self.write, *guard]))

    def __str__(self) -> str:
        types = ", ".join([x.value for x in self.case.operands])
        what = f"{self.case.opcode.value}({types}) -> {self.case.result.value}"
        ways = f"{self.read.name}, {self.use.name}, {self.write.name}"
        return f"{what}, {self.lanes} lanes: {ways}"


def cases() -> list[Case]:
    """Return each elementwise operation of each type, and each conversion."""
    types = oracle.ARRAY_TYPES
    found = [case for type_ in types for case in oracle.cases(type_)]
    for type_ in types:
        found += _general_cases(type_)
    for a, b in product(types, types):
        if not a.is_complex or b.is_complex:
            found.append(Case(Opcode.CONVERT, (a,), b, NO_ATTRIBUTES))
        if a is not b and a.bits == b.bits and not (a.is_complex and b.is_complex):
            found.append(Case(Opcode.BITCAST_CONVERT, (a,), b, NO_ATTRIBUTES))
        if a.is_floating and (b.is_floating or b.is_integer) and a.bits in _RANDOM:
            found.append(Case(Opcode.STOCHASTIC_CONVERT, (a, _RANDOM[a.bits]), b, NO_ATTRIBUTES))
    return found


_RANDOM = {16: ElementType.U16, 32: ElementType.U32, 64: ElementType.U64}
_WHOLE_TYPES = {ElementType.F32: ElementType.C64, ElementType.F64: ElementType.C128}


def _general_cases(type_: ElementType) -> Iterator[Case]:
    """What is written for any type: choices, comparisons, limits, parts, fewer digits."""
    pred = ElementType.PRED
    yield Case(Opcode.SELECT, (pred, type_, type_), type_)
    for direction in ("EQ", "NE") if type_.is_complex else ("EQ", "NE", "GE", "GT", "LE", "LT"):
        for order in ("FLOAT", "TOTALORDER") if type_.is_floating else ("",):
            yield Case(Opcode.COMPARE, (type_, type_), pred, Compare(direction, order))
    if not type_.is_complex and type_ is not pred:
        yield Case(Opcode.CLAMP, (type_, type_, type_), type_)
    if type_ in _WHOLE_TYPES:
        yield Case(Opcode.COMPLEX, (type_, type_), _WHOLE_TYPES[type_])
    if type_ in (ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64):
        for exponent, mantissa in ((5, 2), (5, 10), (8, 7), (8, 23)):
            digits = ReducePrecision(exponent, mantissa)
            yield Case(Opcode.REDUCE_PRECISION, (type_,), type_, digits)


def forms(case: Case) -> Iterator[Form]:
    """Yield every way to write a case."""
    for lanes in ANY_LANES:
        for read, use, write in product(*_ways(lanes)):
            yield Form(case, lanes, read, use, write)


def _ways(lanes: int) -> tuple[list[Access], list[Use], list[Access]]:
    if lanes:
        return READS, list(Use), list(Access)
    return SINGLE_READS, [Use.PLAIN], SINGLE_WRITES


def every_case_once(seed: int) -> list[Form]:
    """Return one form of every case, in lanes and ways drawn at random."""
    random = Random(seed)
    return [_drawn(case, random) for case in cases()]


def drawn_forms(count: int, seed: int) -> list[Form]:
    """Return forms of cases drawn at random, each case about equally often."""
    random, known = Random(seed), cases()
    return [_drawn(random.choice(known), random) for _ in range(count)]


def _drawn(case: Case, random: Random) -> Form:
    lanes = random.choice(ANY_LANES)
    read, use, write = [random.choice(x) for x in _ways(lanes)]
    return Form(case, lanes, read, use, write)


def written(name: str, form: Form, target: Target) -> Function:
    """Return a function (ptr a, ptr b, ptr c, ptr result, i64 n, i64 from) of a form."""
    given = parameters(a="ptr", b="ptr", c="ptr", result="ptr", n="i64", start="i64")
    fn = Function(name, given)
    lanes, case = form.lanes, form.case
    with fn.loop(0, "%n", max(1, lanes)) as loop:
        masks = {x: _mask(fn, x, loop.index, lanes) for x in form.accesses}
        values = [
            _read(fn, target, form, type_, base, loop.index, masks[form.read])
            for type_, base in zip(case.operands, ("%a", "%b", "%c"), strict=False)
        ]
        made = emit_op(fn, target, case.opcode, case.attributes, case.result, values)
        used = _used(fn, form, made, masks.get(Access.FIRST))
        _write(fn, target, form, used, loop.index, masks[form.write])
    return fn


def _mask(fn: Function, access: Access, index: Integer, lanes: int) -> str | None:
    """The mask of an access, as loops write it."""
    if access in (Access.WHOLE, Access.ANYWHERE, Access.ALIGNED, Access.STREAMED):
        return None
    if access in (Access.SHORT, Access.ONE):
        count = min(lanes - 1, 3) if access is Access.SHORT else 1
        return "<" + ", ".join([f"i1 {str(i < count).lower()}" for i in range(lanes)]) + ">"
    narrow = fn.op(f"trunc i64 {index} to i32")
    first = fn.splat("i32", narrow, lanes)
    numbers = "<" + ", ".join([f"i32 {i}" for i in range(lanes)]) + ">"
    at = fn.op(f"add <{lanes} x i32> {first}, {numbers}")
    below = fn.op(f"icmp ult <{lanes} x i32> {at}, splat (i32 2)")
    if access is not Access.RANGE:
        return below
    start = fn.splat("i32", fn.op("trunc i64 %start to i32"), lanes)
    above = fn.op(f"icmp uge <{lanes} x i32> {at}, {start}")
    return fn.op(f"and <{lanes} x i1> {below}, {above}")


def _read(
    fn: Function,
    target: Target,
    form: Form,
    type_: ElementType,
    base: str,
    index: Integer,
    mask: str | None,
) -> Value:
    if form.read in (Access.ANYWHERE, Access.SOMEWHERE):
        return gather(fn, target, type_, base, _indices(fn, index, form.lanes), form.lanes, mask)
    pointer = fn.gep(base, fn.mul(index, DTYPES[type_].itemsize))
    return load(fn, target, type_, pointer, form.lanes, mask)


def _indices(fn: Function, index: Integer, lanes: int) -> str:
    """Every third element from an index on."""
    if not lanes:
        return fn.op(f"mul i64 {index}, 3")
    at = fn.op(f"add <{lanes} x i64> {fn.splat('i64', str(index), lanes)}, {lane_numbers(lanes)}")
    return fn.op(f"mul <{lanes} x i64> {at}, splat (i64 3)")


def _used(fn: Function, form: Form, made: Value, guard: str | None) -> Value:
    lanes = form.lanes
    if form.use is Use.GUARDED:
        return _guarded(fn, made, guard)
    picks = {
        Use.TURNED: list(reversed(range(lanes))),
        Use.HALF: [i // 2 for i in range(lanes)],
        Use.LANE: [0] * lanes,
    }.get(form.use)
    if picks is None:
        return made
    names = [fn.shuffle(made.llvm_type, x, "poison", picks) for x in made.names]
    return Value(tuple(names), made.type, lanes)


def _guarded(fn: Function, value: Value, mask: str | None) -> Value:
    zero = splat(fn, constant(value.type, 0), value.lanes)
    names = [
        fn.op(f"select <{value.lanes} x i1> {mask}, {value.llvm_type} {x}, {value.llvm_type} {y}")
        for x, y in zip(value.names, zero.names, strict=True)
    ]
    return Value(tuple(names), value.type, value.lanes)


def _write(
    fn: Function, target: Target, form: Form, value: Value, index: Integer, mask: str | None
) -> None:
    if form.write in (Access.ANYWHERE, Access.SOMEWHERE):
        scatter_store(fn, target, value, "%result", _indices(fn, index, form.lanes), mask)
        return
    pointer = fn.gep("%result", fn.mul(index, DTYPES[value.type].itemsize))
    if form.write is Access.STREAMED:
        store(fn, target, value, pointer, streamed=True)
        return
    nbytes = DTYPES[value.type].itemsize * max(1, form.lanes)
    store(fn, target, value, pointer, mask, align=nbytes if form.write is Access.ALIGNED else 0)


# -- compiling ---------------------------------------------------------------------------------

_CHILD = """
import sys
from tests.codegen.elementwise.forms import TARGETS
from tests.codegen.elementwise.forms import is_known
from lowtide.llvm.elf import undefined_symbols
from lowtide.llvm.machine import KernelCompiler
target = TARGETS[sys.argv[1]]
compiler = KernelCompiler(target)
for text in sys.stdin.read().split("\\0"):
    code = compiler.object_code(text, whole=sys.argv[2] == "whole")
    missing = [x for x in undefined_symbols(code) if not is_known(x, code, target)]
    if missing:
        sys.exit("no routine: " + " ".join(missing))
"""


def is_known(name: str, code: bytes, target: Target) -> bool:
    """Return whether the process, or a routine that is linked in, has what an object names."""
    return f"@{name}(" in routines_of([code], target) or hasattr(ctypes.CDLL(None), name)


_TOGETHER = 64
"""Forms in one module, and modules in one process."""


def text_of(some: Sequence[Form], target: Target) -> str:
    """Return a module of forms as the compiler is given it."""
    functions = [written(f"k{i}", form, target) for i, form in enumerate(some)]
    return f"{with_short_vectors(module_text(functions))}\n{STREAMED}"


def refused(some: Sequence[Form], target: str, pipeline: str) -> list[str]:
    """Return the forms on which LLVM ends its process, with what it says."""
    batches = list(_batches(some, _TOGETHER))
    found = []
    for group in _batches(batches, _TOGETHER):
        found += _refused([x for batch in group for x in batch], target, pipeline)
    return found


def _refused(some: Sequence[Form], target: str, pipeline: str) -> list[str]:
    parts = list(_batches(some, _TOGETHER))
    said = _said([text_of(x, TARGETS[target]) for x in parts], target, pipeline)
    if said is None:
        return []
    if len(some) == 1:
        return [f"{target}, {pipeline}, {some[0]}: {said}"]
    half = len(some) // 2
    halves = (some[:half], some[half:])
    return [x for part in halves for x in _refused(part, target, pipeline)]


def _said(texts: Sequence[str], target: str, pipeline: str) -> str | None:
    """The last line of a process that does not compile the modules; None where it does."""
    run = subprocess.run(
        [sys.executable, "-c", _CHILD, target, pipeline],
        input="\0".join(texts),
        capture_output=True,
        text=True,
    )
    if run.returncode == 0:
        return None
    lines = run.stderr.strip().splitlines() or [f"ended with {run.returncode}"]
    return next((x for x in lines if "LLVM ERROR" in x or "Assertion" in x), lines[-1])


def _batches(items, size):
    known = list(items)
    for i in range(0, len(known), size):
        yield known[i : i + size]
