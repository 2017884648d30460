"""Running the kernel of one instruction between pages of memory that may not be touched."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from tests.codegen.running import SIGNATURE

from lowtide.checking.tolerances import assert_close
from lowtide.codegen.cpu.loop import plan_loop
from lowtide.codegen.elements.operands import leaves
from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Instruction, Module, Opcode, Shape
from lowtide.ir.literal import DTYPES, Array
from lowtide.llvm.function import module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64, Target, host_target, restricted
from lowtide.ops.in_place import in_place_pairs

TARGETS = ("native", "avx2")
PAGE = mmap.PAGESIZE
PROT_NONE = 0

_RANGES = {"b": (0, 2), "u": (0, 7)}


@cache
def target_of(name: str) -> Target:
    """Return the processor that runs this, one with fewer features, or another one."""
    return AARCH64 if name == "aarch64" else restricted(host_target(), name)


class Fenced:
    """An array in memory between two pages, of which it touches the latter, or the former."""

    def __init__(self, shape: Shape, *, at_end: bool) -> None:
        self.shape = shape
        dtype = np.dtype(DTYPES[shape.element_type])
        nbytes = shape.element_count * dtype.itemsize
        pages = max(1, -(-nbytes // PAGE))
        self._memory = mmap.mmap(-1, (pages + 2) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (0, pages + 1):
            assert not libc.mprotect(ctypes.c_void_p(start + page * PAGE), PAGE, PROT_NONE)
        offset = PAGE + (pages * PAGE - nbytes if at_end else 0)
        self.address = start + offset
        order = shape.layout.minor_to_major[::-1] if shape.layout else tuple(range(shape.rank))
        raw = np.frombuffer(self._memory, np.uint8, nbytes, offset)
        sizes = [shape.dimensions[d] for d in order]
        self.array: Array = raw.view(dtype).reshape(sizes).transpose(np.argsort(order).astype(int))
        raw[:] = 0x5A


def as_fusion(module: Module) -> str:
    """Return a module whose entry is one fusion of all that the entry of a module does."""
    text = str(module).split("\n", 1)[1].replace("ENTRY %", "%", 1)
    entry = module.entry
    shapes = [x.shape for x in entry.parameters]
    lines = [f"  a{i} = {x} parameter({i})" for i, x in enumerate(shapes)]
    given = ", ".join([f"a{i}" for i in range(len(shapes))])
    root = f"  ROOT all = {entry.root.shape} fusion({given}), kind=kLoop, calls=%{entry.name}"
    return "\n".join(["HloModule fused", text, "ENTRY main {", *lines, root, "}", ""])


def the_root(module: Module) -> Instruction:
    """Return the root of the entry; all else there are parameters."""
    root = module.entry.root
    assert all(
        x is root or x.opcode is Opcode.PARAMETER for x in module.entry.instructions.values()
    )
    return root


def run_kernel(
    root: Instruction, inputs: Sequence[Array], target: Target, cuts: int, *, at_end: bool
) -> list[Array]:
    """Return the results of the kernel of a root; its units are run backwards in `cuts` parts."""
    plan = plan_loop(root, target)
    assert (plan.shared_bytes, plan.thread_bytes) == (0, 0)
    code = plan.emit()
    objects = [KernelCompiler(target).object_code(module_text(code.functions, code.globals))]
    library = Library(objects, [x.function for x in code.phases], target)
    numbers = list(range(len(root.operands)))
    given = [Fenced(x.shape, at_end=at_end) for x in root.operands]
    results = [Fenced(x, at_end=at_end) for x in leaves(root.shape)]
    positions = [index for index, leaf in root.shape.leaves() if leaf.is_array]
    for (operand, _), at in in_place_pairs(root):
        given[operand] = results[positions.index(at)]
        numbers.remove(operand)
    for fenced, array in zip(given, inputs, strict=True):
        fenced.array[...] = array
    arrays = [*given, *results]
    buffers = (ctypes.c_void_p * len(arrays))(*[x.address for x in arrays])
    for phase in code.phases:
        function = SIGNATURE(library[phase.function])
        borders = [phase.units * i // cuts for i in range(cuts + 1)]
        for begin, end in reversed(list(pairwise(borders))):
            function(ctypes.addressof(buffers), None, begin, end, 0)
    for number in numbers:
        np.testing.assert_array_equal(given[number].array, inputs[number])
    return [x.array for x in results]


def random_inputs(module: Module, seed: int) -> list[Array]:
    """Return arguments for the parameters of a module: small integers in any type."""
    generator = np.random.default_rng(seed)
    found = []
    for parameter in module.entry.parameters:
        dtype = np.dtype(DTYPES[parameter.shape.element_type])
        low, high = _RANGES.get(dtype.kind, (-6, 7))
        array = generator.integers(low, high, parameter.shape.dimensions)
        found.append(np.asarray(array).astype(np.int8).astype(dtype))
    return found


def check(text: str, target: str = "native", *, seed: int = 0, cuts: int = 3) -> None:
    """Raise AssertionError unless the kernel of the root gives what the evaluator does."""
    module = parse_hlo(text)
    root = the_root(module)
    inputs = random_inputs(module, seed)
    with np.errstate(all="ignore"):
        wanted: Any = value_leaves(evaluate(module, inputs))
    for at_end in (True, False):
        got = run_kernel(root, inputs, target_of(target), cuts, at_end=at_end)
        for array, expected, shape in zip(got, wanted, leaves(root.shape), strict=True):
            assert_close(array, expected, shape.element_type)
