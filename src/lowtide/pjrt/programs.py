"""Compiled programs: what JAX hands in becomes an executable."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_size_t, c_void_p
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from lowtide.backends.kept import kept
from lowtide.client.executable.executable import Executable
from lowtide.files.object_cache import ObjectCache
from lowtide.ir.garbage_collection import without_collection
from lowtide.native import make
from lowtide.options import Options
from lowtide.pjrt.blocks import HandleCell
from lowtide.pjrt.compile_options import lowtide_options
from lowtide.pjrt.device_assignment import CompileOptions, read_options
from lowtide.pjrt.devices import MEMORY_KIND, PluginDevice, card, client
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError
from lowtide.pjrt.handles import KeptLists, handle
from lowtide.pjrt.known_programs import keep_program, keys_of, known_program
from lowtide.pjrt.layouts import layout_at
from lowtide.pjrt.queues import all_queues
from lowtide.pjrt.signatures import ProgramSignature, signature_of
from lowtide.pjrt.table import serves

if TYPE_CHECKING:
    from lowtide.ir.module import Module
    from lowtide.pjrt.card_programs import CardExecutable

AnyExecutable: TypeAlias = "Executable | CardExecutable"
"""A program of the processor, or of a card."""


class PluginProgram:
    """An executable on some devices, which run it together; JAX knows it by its signature."""

    def __init__(
        self, signature: ProgramSignature, executable: AnyExecutable, options: CompileOptions
    ) -> None:
        self.executable: AnyExecutable | None = executable
        self.options = options
        self.devices = [client().device(x) for x in options.devices]
        self.name = signature.name
        self.arguments, self.results = signature.arguments, signature.results
        self.is_tuple, self.tokens = signature.is_tuple, signature.tokens
        self.donated, self.shardings = signature.donated, signature.shardings
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

    def alive(self) -> AnyExecutable:
        """Return the executable; raises PluginError where it was deleted."""
        if self.executable is None:
            raise PluginError(INVALID_ARGUMENT, f"the program {self.name} was deleted")
        return self.executable

    @cached_property
    def proto(self) -> bytes:
        """The scheduled module that runs, with its configuration, as protobuf."""
        from lowtide.frontend.hlo_proto import write_hlo_module_with_config

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
    keys = keys_of(form, code, options, chosen) if card() is None else None
    found: tuple[ProgramSignature, AnyExecutable] | None
    found = None if keys is None else known_program(keys)
    if found is None:
        # The HLO of what is known by its keys is never asked for again.
        found = _compiled(form, code, options, chosen, None if keys else kept("hlo", chosen))
        if keys is not None and isinstance(found[1], Executable):
            keep_program(keys, found[0], found[1].making.key)
    for queue in all_queues():
        queue.note_compilation()
    loaded = PluginProgram(*found, options)
    arguments.executable = handle(loaded, loaded.cell())


def _compiled(
    form: str, code: bytes, options: CompileOptions, chosen: Options, cached: ObjectCache | None
) -> tuple[ProgramSignature, AnyExecutable]:
    from lowtide.client.jit.lowering import held_functions
    from lowtide.pjrt.program_modules import module_of  # What is kept needs no module.

    module = module_of(form, code, options, cached)
    functions = held_functions(module)
    executable = _executable_of(module, chosen)
    del functions  # The executable holds them from now on.
    return signature_of(module), executable


def _executable_of(module: Module, options: Options) -> AnyExecutable:
    if card() is not None:
        from lowtide.pjrt.card_programs import compile_for_card

        return compile_for_card(module, options)
    from lowtide.client.executable.compiling import compile_module

    return compile_module(module, options)
