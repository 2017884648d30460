"""Compiled programs: what JAX hands in becomes an executable."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int, c_int64, c_size_t, c_void_p
from functools import cached_property
from math import prod
from typing import Any

from lowtide.backends.kept import kept
from lowtide.client.executable import Executable, compile_module
from lowtide.client.jit.lowering import held_functions, refuse_callbacks
from lowtide.files.object_cache import ObjectCache
from lowtide.frontend.hlo_proto import read_hlo_proto, write_hlo_module_with_config
from lowtide.ir import Module, Shape
from lowtide.ir.garbage_collection import without_collection
from lowtide.native import make
from lowtide.pjrt.blocks import HandleCell
from lowtide.pjrt.compile_options import lowtide_options
from lowtide.pjrt.devices import MEMORY_KIND, PluginDevice, client
from lowtide.pjrt.donation import tie_donors
from lowtide.pjrt.element_types import NUMBERS, dtype_of
from lowtide.pjrt.entry_marks import entry_marks, mark_entry, memories_of
from lowtide.pjrt.errors import INVALID_ARGUMENT, UNIMPLEMENTED, PluginError
from lowtide.pjrt.handles import KeptLists, handle
from lowtide.pjrt.layouts import Order, layout_at, row_major
from lowtide.pjrt.partitioning import program_of_each, shardings_of
from lowtide.pjrt.program_options import CompileOptions, read_options
from lowtide.pjrt.queues import all_queues
from lowtide.pjrt.stablehlo import kept_hlo_of
from lowtide.pjrt.table import serves
from lowtide.pjrt.tokens import TOKEN_SHAPE
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an argument or result: its sizes, its element type by PJRT's number, and where.

    `order` is that in which its dimensions lie, `memory` the kind of memory.
    """

    sizes: tuple[int, ...]
    number: int
    order: Order
    memory: str

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, each of which has whole ones."""
        return prod(self.sizes) * dtype_of(self.number).itemsize


def _array_types(shapes: Sequence[Shape], memories: Sequence[str]) -> tuple[ArrayType, ...]:
    found = []
    for shape, memory in zip(shapes, memories, strict=True):
        if shape.is_token:
            shape = TOKEN_SHAPE
        order = shape.layout.minor_to_major if shape.layout else row_major(shape.rank)
        found.append(ArrayType(shape.dimensions, NUMBERS[shape.element_type], order, memory))
    return tuple(found)


class PluginProgram:
    """An executable on some devices, which run it together.

    `module` is the program of each device, `donated` are the arguments that it may overwrite, and
    `shardings` those of arguments and results in protobuf, None where nothing is divided.
    """

    def __init__(self, module: Module, executable: Executable, options: CompileOptions) -> None:
        self.executable: Executable | None = executable
        self.options = options
        self.devices = [client().device(x) for x in options.devices]
        self.name = module.name
        program = module.entry_layout or module.entry.program_shape
        result = program.result
        leaves = result.tuple_shapes if result.is_tuple else (result,)
        memories = memories_of(module, len(program.parameters), len(leaves))
        self.arguments = _array_types(program.parameters, memories[0])
        self.results = _array_types(leaves, memories[1])
        self.is_tuple = result.is_tuple
        self.tokens = tuple([i for i, x in enumerate(program.parameters) if x.is_token])
        aliased = [x.parameter for x in module.input_output_aliases]
        donors = [x.parameter for x in module.buffer_donors]
        self.donated = tuple(dict.fromkeys([*aliased, *donors]))
        self.shardings = shardings_of(module)
        self.lists = KeptLists()

    @property
    def device(self) -> PluginDevice:
        """The first of the devices."""
        return self.devices[0]

    @property
    def argument_count(self) -> int:
        """How many arrays it takes."""
        return len(self.arguments)

    @property
    def is_shared(self) -> bool:
        """Whether several devices run it together."""
        return len(self.devices) > 1

    @property
    def is_usual(self) -> bool:
        """Whether it runs on one device, and leaves its results in the usual memory there."""
        kinds = {x.memory for x in self.results}
        return not self.is_shared and kinds <= {MEMORY_KIND}

    def cell(self) -> Any:
        """Return a cell for a handle: machine code reads the counts of devices in its words."""
        return make(HandleCell, device=self.options.replicas, memory=self.options.partitions)

    def alive(self) -> Executable:
        """Return the executable; raises PluginError where it was deleted."""
        if self.executable is None:
            raise PluginError(INVALID_ARGUMENT, f"the program {self.name} was deleted")
        return self.executable

    @cached_property
    def proto(self) -> bytes:
        """The scheduled module that runs, with its configuration, as protobuf."""
        return write_hlo_module_with_config(self.alive().module)

    @cached_property
    def devices_at(self) -> int:
        """The address of the list of the devices."""
        return self.lists.of(c_void_p, [x.address for x in self.devices])

    @cached_property
    def types_at(self) -> int:
        """The address of the element types of the results."""
        return self.lists.of(c_int, [x.number for x in self.results])

    @cached_property
    def sizes_at(self) -> tuple[int, int]:
        """Addresses of the sizes of all results, and of their ranks."""
        sizes = self.lists.of(c_int64, [size for x in self.results for size in x.sizes])
        return sizes, self.lists.of(c_size_t, [len(x.sizes) for x in self.results])

    @cached_property
    def argument_layouts_at(self) -> int:
        """The address of the layouts of the arguments."""
        return self.lists.of(c_void_p, [layout_at(x.order) for x in self.arguments])

    @cached_property
    def result_layouts_at(self) -> int:
        """The address of the layouts of the results."""
        return self.lists.of(c_void_p, [layout_at(x.order) for x in self.results])


class ProgramCode(ctypes.Structure):
    """A program in some format."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("code", c_void_p),
        ("code_size", c_size_t),
        ("format", c_void_p),
        ("format_size", c_size_t),
    )


@serves(
    "Client_Compile",
    client=c_void_p,
    program=c_void_p,
    compile_options=c_void_p,
    compile_options_size=c_size_t,
    executable=c_void_p,
)
@without_collection()
def _compile(arguments: Any) -> None:
    program = ProgramCode.from_address(arguments.program)
    form = ctypes.string_at(program.format, program.format_size).decode()
    code = ctypes.string_at(program.code, program.code_size)
    options = read_options(
        ctypes.string_at(arguments.compile_options, arguments.compile_options_size)
    )
    chosen = lowtide_options(options.overrides)
    module = module_of(form, code, options, kept("hlo", chosen))
    functions = held_functions(module)
    executable = compile_module(module, chosen)
    del functions  # The executable holds them from now on.
    for queue in all_queues():
        queue.note_compilation()
    loaded = PluginProgram(module, executable, options)
    arguments.executable = handle(loaded, loaded.cell())


def module_of(
    form: str, code: bytes, options: CompileOptions, cached: ObjectCache | None = None
) -> Module:
    """Return a program in one of the forms "mlir", which is portable StableHLO, and "hlo".

    The HLO of StableHLO is taken from `cached`, where it is there.
    It is that of each device. Of StableHLO the entry has the layouts that its marks ask for. Raises
    PluginError for another form, and for what lowtide cannot call or pass on.
    """
    if form not in ("mlir", "hlo"):
        raise PluginError(UNIMPLEMENTED, f"programs come as 'mlir' or 'hlo', not as {form!r}")
    module = read_hlo_proto(
        kept_hlo_of(code, cached or ObjectCache(None)) if form == "mlir" else code
    )
    refuse_callbacks(module)
    module = program_of_each(module, options)
    if form == "mlir":
        mark_entry(module, entry_marks(code))
    tie_donors(module)
    _refuse_others(module)
    return module


def _refuse_others(module: Module) -> None:
    """Raise PluginError where what goes in or out is neither an array of a known type nor a token.

    A token is ready when the call has returned, so that calls which pass it on run in order.
    """
    root = module.entry.root.shape
    given = [x.shape for x in module.entry.parameters]
    results = root.tuple_shapes if root.is_tuple else (root,)
    for shape in (*given, *results):
        if not shape.is_token and not (shape.is_array and shape.element_type in NUMBERS):
            raise PluginError(
                UNIMPLEMENTED, f"{module.name} takes or returns {shape}: only arrays and tokens may"
            )
