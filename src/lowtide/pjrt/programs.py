"""Compiled programs: what JAX hands in becomes an executable, and what JAX asks about it."""

from __future__ import annotations

import ctypes
from ctypes import c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

from lowtide.client.executable import Executable, compile_module
from lowtide.client.jit.lowering import refuse_callbacks
from lowtide.frontend.hlo_proto import read_hlo_proto, write_hlo_module_with_config
from lowtide.ir import Module, Shape
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import ProgramShape
from lowtide.pjrt.compile_options import compile_options
from lowtide.pjrt.devices import MEMORY_KIND, PluginDevice, client
from lowtide.pjrt.element_types import NUMBERS, dtype_of
from lowtide.pjrt.errors import INVALID_ARGUMENT, UNIMPLEMENTED, PluginError
from lowtide.pjrt.handles import KeptLists, handle, put_text, value_of
from lowtide.pjrt.native_code import immortal
from lowtide.pjrt.table import serves


@dataclass(frozen=True, slots=True)
class Result:
    """The type of a result: its sizes, and its element type by PJRT's number."""

    sizes: tuple[int, ...]
    number: int

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, each of which has whole ones."""
        return prod(self.sizes) * dtype_of(self.number).itemsize


class PluginProgram:
    """An executable on a device; `donated` are the arguments that it may overwrite."""

    def __init__(self, module: Module, executable: Executable, device: PluginDevice) -> None:
        self.executable: Executable | None = executable
        self.device = device
        self.name = module.name
        root = module.entry.root.shape
        leaves = root.tuple_shapes if root.is_tuple else (root,)
        self.results = tuple([Result(x.dimensions, NUMBERS[x.element_type]) for x in leaves])
        self.is_tuple = root.is_tuple
        given = [x.shape for x in module.entry.parameters]
        self.parameters = tuple([(DTYPES[x.element_type], x.dimensions) for x in given])
        self.argument_count = len(module.entry.parameters)
        aliased = [x.parameter for x in module.input_output_aliases]
        donors = [x.parameter for x in module.buffer_donors]
        self.donated = tuple(dict.fromkeys([*aliased, *donors]))
        self.lists = KeptLists()

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
    def kinds(self) -> tuple[int, int]:
        """Addresses of the memory kind and its length, once for each argument and result."""
        count = max(len(self.results), self.argument_count)
        kind = MEMORY_KIND.encode()
        texts = self.lists.of(c_char_p, [kind] * count)
        return texts, self.lists.of(c_size_t, [len(kind)] * count)

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
    def devices_at(self) -> int:
        """The address of the list of the one device."""
        return self.lists.of(c_void_p, [self.device.address])


class _Code(ctypes.Structure):
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
def _compile(arguments: Any) -> None:
    program = _Code.from_address(arguments.program)
    form = ctypes.string_at(program.format, program.format_size)
    if form != b"mlir":
        raise PluginError(UNIMPLEMENTED, f"programs come as StableHLO, not as {form.decode()!r}")
    code = ctypes.string_at(program.code, program.code_size)
    given = ctypes.string_at(arguments.compile_options, arguments.compile_options_size)
    module = read_hlo_proto(_hlo_of(code))
    refuse_callbacks(module)
    _refuse_tokens(module)
    module.entry_layout = _row_major(module.entry_layout)
    device = client().device(_device_number(given))
    executable = compile_module(module, compile_options(given))
    arguments.executable = handle(PluginProgram(module, executable, device))


def _hlo_of(code: bytes) -> bytes:
    """The protobuf of a module that is given in StableHLO."""
    from jaxlib import _jax

    library: Any = _jax
    convert = library.mlir.mlir_module_to_xla_computation
    found: bytes = convert(
        code, use_tuple_args=False, return_tuple=False
    ).as_serialized_hlo_module_proto()
    return found


def _device_number(serialized: bytes) -> int:
    """The number of the device that options of a compilation name; raises PluginError for more."""
    from jaxlib import _jax

    library: Any = _jax
    options = library.CompileOptions.ParseFromString(serialized)
    count = options.num_replicas * options.num_partitions
    if count != 1:
        raise PluginError(
            UNIMPLEMENTED,
            f"the program is for {count} devices; lowtide runs programs on one: place its arrays "
            "on one device, or leave out the mesh",
        )
    assignment = options.device_assignment
    if assignment is None:
        return 0
    return _last_number(assignment.serialize())


def _last_number(proto: bytes) -> int:
    """The number that ends a message of one device, seven bits a byte, the lowest first."""
    start = len(proto) - 1
    while start and proto[start - 1] & 0x80:
        start -= 1
    return sum([(byte & 0x7F) << 7 * i for i, byte in enumerate(proto[start:])])


def _number(value: int) -> bytes:
    """A number as protobuf writes it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _row_major(program: ProgramShape | None) -> ProgramShape | None:
    """The type of a program with every layout spelled out: JAX takes arrays as row-major."""
    if program is None:
        return None
    parameters = tuple([x.with_default_layout() for x in program.parameters])
    return ProgramShape(parameters, program.result.with_default_layout(), program.parameter_names)


def _refuse_tokens(module: Module) -> None:
    root = module.entry.root.shape
    given = [x.shape for x in module.entry.parameters]
    results = root.tuple_shapes if root.is_tuple else (root,)
    if not all(_is_array(x) for x in (*given, *results)):
        raise PluginError(
            UNIMPLEMENTED,
            f"{module.name} takes or returns a token, for effects in order: lowtide has none yet",
        )


def _is_array(shape: Shape) -> bool:
    return shape.is_array and shape.element_type in NUMBERS


@serves("LoadedExecutable_GetExecutable", loaded=c_void_p, executable=c_void_p)
def _executable_of(arguments: Any) -> None:
    arguments.executable = handle(value_of(arguments.loaded))


@serves("LoadedExecutable_Delete", executable=c_void_p)
def _delete(arguments: Any) -> None:
    value_of(arguments.executable).executable = None


@serves("LoadedExecutable_IsDeleted", executable=c_void_p, is_deleted=c_bool)
def _is_deleted(arguments: Any) -> None:
    arguments.is_deleted = value_of(arguments.executable).executable is None


@serves(
    "LoadedExecutable_AddressableDevices", executable=c_void_p, devices=c_void_p, count=c_size_t
)
def _devices(arguments: Any) -> None:
    arguments.devices, arguments.count = value_of(arguments.executable).devices_at, 1


_delete_nothing: Final = immortal(ctypes.CFUNCTYPE(None, c_void_p)(lambda _: None))


@serves(
    "LoadedExecutable_GetDeviceAssignment",
    executable=c_void_p,
    text=c_void_p,
    text_size=c_size_t,
    holder=c_void_p,
    deleter=c_void_p,
)
def _assignment(arguments: Any) -> None:
    number = value_of(arguments.executable).device.number
    # DeviceAssignmentProto: one replica, one computation, whose devices are this one.
    devices = _number(number)
    computation = bytes([10, len(devices), *devices])
    put_text(arguments, "text", bytes([8, 1, 16, 1, 26, len(computation), *computation]))
    arguments.holder = None
    arguments.deleter = ctypes.cast(_delete_nothing, c_void_p).value


@serves("Executable_Name", executable=c_void_p, name=c_void_p, name_size=c_size_t)
def _name(arguments: Any) -> None:
    put_text(arguments, "name", value_of(arguments.executable).name)


@serves("Executable_NumOutputs", executable=c_void_p, count=c_size_t)
def _result_count(arguments: Any) -> None:
    arguments.count = len(value_of(arguments.executable).results)


@serves("Executable_OutputElementTypes", executable=c_void_p, types=c_void_p, count=c_size_t)
def _result_types(arguments: Any) -> None:
    program = value_of(arguments.executable)
    arguments.types, arguments.count = program.types_at, len(program.results)


@serves(
    "Executable_OutputDimensions",
    executable=c_void_p,
    count=c_size_t,
    sizes=c_void_p,
    ranks=c_void_p,
)
def _result_sizes(arguments: Any) -> None:
    program = value_of(arguments.executable)
    arguments.count = len(program.results)
    arguments.sizes, arguments.ranks = program.sizes_at


@serves(
    "Executable_OutputMemoryKinds",
    executable=c_void_p,
    count=c_size_t,
    kinds=c_void_p,
    lengths=c_void_p,
)
def _result_kinds(arguments: Any) -> None:
    program = value_of(arguments.executable)
    arguments.count = len(program.results)
    arguments.kinds, arguments.lengths = program.kinds


@serves(
    "Executable_ParameterMemoryKinds",
    executable=c_void_p,
    count=c_size_t,
    kinds=c_void_p,
    lengths=c_void_p,
)
def _argument_kinds(arguments: Any) -> None:
    program = value_of(arguments.executable)
    arguments.count = program.argument_count
    arguments.kinds, arguments.lengths = program.kinds


@serves("Executable_SizeOfGeneratedCodeInBytes", executable=c_void_p, size=c_int64)
def _code_size(arguments: Any) -> None:
    program = value_of(arguments.executable).alive().program
    arguments.size = sum([len(x) for x in program.objects])


@serves("Executable_GetCostAnalysis", executable=c_void_p, count=c_size_t, properties=c_void_p)
def _costs(arguments: Any) -> None:
    arguments.count, arguments.properties = 0, None


@serves("Executable_OptimizedProgram", executable=c_void_p, program=c_void_p)
def _optimized(arguments: Any) -> None:
    """Asked twice: for the size, and with room for as much."""
    proto = value_of(arguments.executable).proto
    program = _Code.from_address(arguments.program)
    program.code_size = len(proto)
    put_text(program, "format", "hlo_with_config")
    if program.code:
        ctypes.memmove(program.code, proto, len(proto))


@serves(
    "Executable_GetCompiledMemoryStats",
    executable=c_void_p,
    generated_code=c_int64,
    argument=c_int64,
    output=c_int64,
    alias=c_int64,
    temp=c_int64,
    host_generated_code=c_int64,
    host_argument=c_int64,
    host_output=c_int64,
    host_alias=c_int64,
    host_temp=c_int64,
    peak=c_int64,
    total=c_int64,
)
def _memory(arguments: Any) -> None:
    executable = value_of(arguments.executable).alive()
    memory = executable.memory
    arguments.generated_code = sum([len(x) for x in executable.program.objects])
    arguments.argument = memory["argument_bytes"]
    arguments.output = memory["output_bytes"]
    arguments.alias = memory["alias_bytes"]
    arguments.temp = memory["temp_bytes"]
    for name in ("generated_code", "argument", "output", "alias", "temp"):
        setattr(arguments, f"host_{name}", 0)
    known = arguments.struct_size
    if known >= type(arguments).peak.offset + 8:
        arguments.peak = memory["argument_bytes"] + memory["ladder"]["arena_bytes"]
    if known >= type(arguments).total.offset + 8:
        arguments.total = memory["argument_bytes"] + memory["ladder"]["arena_bytes"]
