"""Programs of a graphics processor for JAX: made of modules, and loaded when they are called."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final
from weakref import finalize

from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.gpu_names import is_gpu_target
from lowtide.options import Options
from lowtide.pjrt.buffers import dense_copy
from lowtide.pjrt.card import Card
from lowtide.pjrt.compile_options import card_target
from lowtide.pjrt.devices import card
from lowtide.pjrt.errors import INTERNAL, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, PluginError
from lowtide.pjrt.kept_programs import CARD_MARK
from lowtide.runtime.cpu.arguments import Argument
from lowtide.runtime.gpu.device_array import DeviceArray, strides_of
from lowtide.runtime.gpu.driver import DeviceMemoryError, DriverError
from lowtide.runtime.gpu.execution import LoadedGpuProgram

if TYPE_CHECKING:
    from lowtide.backends.build import Build
    from lowtide.client.executable.executable import Executable
    from lowtide.ir.module import Module
    from lowtide.runtime.gpu.program import GpuProgram

_logger: Final = logging.getLogger(__name__)


@final
class CardExecutable:
    """A program on a card, called with arrays there; the counterpart of `Executable`.

    It has memory on the card from its first call on, until others need it.
    """

    def __init__(self, built: Build[GpuProgram], where: Card) -> None:
        self._built, self._card = built, where
        self._loaded: LoadedGpuProgram | None = None
        self._closing: finalize[[], Any] | None = None
        finalize(self, where.memory.forget, id(built.program)).atexit = False
        self.program = built.program
        """The thunks, the kernels, and the constants."""
        self.module: Module = built.plan.module
        """The scheduled module that runs."""
        self.memory: dict[str, Any] = built.plan.report.to_json()
        """What a call needs, in the schema "lowtide.memory/1"; sizes in bytes."""

    def __call__(self, *arrays: DeviceArray) -> Any:
        """Return the results for the leaves of the parameters, depth first, on the card.

        They are new arrays, nested as the root's shape is; no argument is written to. Raises
        PluginError where the card has too little memory or fails.
        """
        with self._card.used_by(self):
            try:
                loaded = self._loaded or self._load()
                wanted = zip(self.program.interface.arguments, arrays, strict=True)
                return loaded(*[self._as_taken(x, given) for x, given in wanted], keep=True)
            except DeviceMemoryError as error:
                raise PluginError(RESOURCE_EXHAUSTED, str(error)) from error
            except DriverError as error:
                raise PluginError(INTERNAL, str(error)) from error

    def _load(self) -> LoadedGpuProgram:
        loaded = self._loaded = LoadedGpuProgram(self.program, self._card.driver)
        self._closing = finalize(self, loaded.close)
        self._closing.atexit = False
        return loaded

    def unload(self) -> None:
        """Give the memory on the card back until the next call."""
        if self._closing is not None:
            self._closing()
        self._loaded = self._closing = None

    def _as_taken(self, argument: Argument, array: DeviceArray) -> DeviceArray:
        """An argument in the order of memory that the program takes."""
        if array.kind is argument.shape:
            return array
        wanted = strides_of(argument.shape)
        sizes = zip(array.shape, array.strides, wanted, strict=True)
        if all(size <= 1 or x == y for size, x, y in sizes) or not array.nbytes:
            return array
        layout = argument.shape.layout
        assert layout is not None
        return self._card.placed(dense_copy(self._card.fetched(array), layout.minor_to_major))

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.program.name

    @property
    def arena_bytes(self) -> int:
        """The bytes that a call needs beyond its arguments."""
        return int(self.memory["ladder"]["arena_bytes"])

    @property
    def code_bytes(self) -> int:
        """The bytes of the kernels, as text."""
        return sum([len(x) for x in self.program.texts])

    def as_text(self) -> str:
        """Return the scheduled HLO that runs."""
        return str(self.module)

    def serialize(self) -> bytes:
        """Return the program as bytes, for `read_card_program`: no machine code is in them."""
        from lowtide.frontend.hlo_proto import write_hlo_module_proto

        return CARD_MARK + write_hlo_module_proto(self.module)


def compile_for_card(module: Module, options: Options) -> CardExecutable | Executable:
    """Return a module, which is not changed, as a program of the card, or of the processor.

    It is one of the processor where it calls functions of the host or has another operation that
    kernels cannot do, which is logged as a warning, or where the options name a processor. Raises
    PluginError for options that this device has not, and what `build` raises.
    """
    from lowtide.client.executable.compiling import compile_module

    where = card()
    if where is None or not is_gpu_target(options.target):
        return compile_module(module, options)
    if options.check != "never":
        raise PluginError(
            INVALID_ARGUMENT, "check compares calls of processors: leave it out for a GPU"
        )
    if options.target not in (card_target(), where.target):
        found = f"the device is {where.target}, and {options.target} is another one"
        raise PluginError(INVALID_ARGUMENT, f"{found}: leave target out")
    from lowtide.client.gpu import built_for_gpu

    try:
        built = built_for_gpu(module, where.target, options)
    except UnsupportedOpError as error:
        said = "runs on the processor, with copies of its arguments and results"
        _logger.warning("%s %s: %s", module.name, said, str(error).partition("\n")[0])
        return compile_module(module, replace(options, target="native"))
    made = CardExecutable(built, where)
    with where.lock:
        where.driver.use()
        where.driver.load(built.program)  # What its kernels lack is an error of the compilation.
    return made


def read_card_program(data: bytes, options: Options) -> CardExecutable | Executable:
    """Return the program whose bytes `CardExecutable.serialize` made, compiled anew.

    Raises PluginError where the device of this process is a processor, HloProtoError for others.
    """
    from lowtide.frontend.hlo_proto import read_hlo_proto

    if card() is None:
        raise PluginError(
            INVALID_ARGUMENT, "the program is one of a GPU, and target names none: compile it again"
        )
    return compile_for_card(read_hlo_proto(data[len(CARD_MARK) :]), options)
