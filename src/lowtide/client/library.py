"""The client side: a library of clients, which compile computations to executables.

>>> client = ClientLibrary.local_client()
>>> executable = client.compile(builder.build(a * x + y))
>>> result = executable.run([a, x, y])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, cast, final

import numpy as np

from lowtide.builder.values import SubComputation
from lowtide.evaluator.evaluate import Leaf, parameter_leaves
from lowtide.ir import LowtideError, Module, Shape
from lowtide.ir.clone import clone_computation, clone_module
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError
from lowtide.ir.given_arrays import missing_text, opened_array, sizes_fit, type_text
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import ProgramShape
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.suggestions import nearest
from lowtide.verifier import verify


class ModuleExecutable(Protocol):
    """A compiled module: what a `ModuleCompiler` returns.

    Called with the leaves of the parameters, depth first, it returns a value in the form of the
    root: an array or tuples of values. With `consume` it may overwrite arguments that the module
    aliases to outputs or donates.
    """

    def __call__(self, *arrays: Any, consume: bool = False) -> Any:
        """Return the results for the arguments."""

    @property
    def memory(self) -> Any:
        """The report of schema "lowtide.memory/1"."""

    def as_text(self) -> str:
        """Return the scheduled HLO."""

    def serialize(self) -> bytes:
        """Return the executable as bytes."""


ModuleCompiler: TypeAlias = Callable[[Module, Options], ModuleExecutable]
"""Makes an executable of a verified module, which it does not change."""

_HOME: Final = ("lowtide.client.executable", "compile_module")


def native_compiler() -> ModuleCompiler:
    """Return the compiler to native code, which is imported on use."""
    module, name = _HOME
    return cast("ModuleCompiler", getattr(import_module(module), name))


def telling_compiler(tell: Callable[[str], None]) -> ModuleCompiler:
    """Return the compiler to native code that tells which plans it finds for a limited memory."""

    def compile_told(module: Module, options: Options | None = None) -> ModuleExecutable:
        compiler: Any = native_compiler()
        made: ModuleExecutable = compiler(module, options, tell=tell)
        return made

    return compile_told


@dataclass(frozen=True, slots=True)
class Platform:
    """A kind of device. There is one, the CPU that Python runs on."""

    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a platform; `ordinal` counts from 0."""

    platform: Platform
    ordinal: int

    def __str__(self) -> str:
        return f"{self.platform.name}:{self.ordinal}"


HOST: Final = Platform("Host", ("cpu", "host"))
PLATFORMS: Final = (HOST,)


def platform_named(name: str) -> Platform:
    """Return the platform of a name, in upper or lower case; raises LowtideError for no such."""
    wanted = name.lower()
    for platform in PLATFORMS:
        if wanted in (platform.name.lower(), *platform.aliases):
            return platform
    known = [platform.name for platform in PLATFORMS]
    raise LowtideError(f"no platform {name!r}; there is: {', '.join(known)}{nearest(name, known)}")


@final
class ClientLibrary:
    """The clients of this process, one for each platform."""

    _clients: Final[dict[Platform, LocalClient]] = {}

    @classmethod
    def local_client(cls, platform: str | Platform = HOST) -> LocalClient:
        """Return the client of a platform, always the same one.

        Raises LowtideError for a platform that there is not.
        """
        found = platform_named(platform) if isinstance(platform, str) else platform
        if found not in cls._clients:
            cls._clients.setdefault(found, LocalClient(found))
        return cls._clients[found]


@final
class LocalClient:
    """Compiles computations for the devices of one platform in this process.

    `compiler` makes the executables: native code where it is None.
    """

    def __init__(self, platform: Platform = HOST, compiler: ModuleCompiler | None = None) -> None:
        self.platform = platform
        self._compiler = compiler

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices: one, of whose cores `Options` says how many are used."""
        return (Device(self.platform, 0),)

    @property
    def default_device(self) -> Device:
        """The device that runs what is compiled."""
        return self.devices[0]

    def compile(
        self,
        computation: Module | SubComputation,
        argument_layouts: Sequence[Shape] | None = None,
        options: Options | None = None,
    ) -> LocalExecutable:
        """Return the executable of a computation, which is not changed.

        `argument_layouts` are the shapes of the parameters with the layouts in which the arguments
        come; by default those of the module. Raises InputError where they do not fit the
        parameters, InvalidModuleError for a module that breaks the rules of HLO, and
        UnsupportedOpError for an operation that cannot be compiled.
        """
        module = _module_of(computation)
        if argument_layouts is not None:
            module = _laid_out(module, argument_layouts)
        verify(module)
        compiler = self._compiler or native_compiler()
        return LocalExecutable(self, module, compiler(module, options or Options()))


@final
class LocalExecutable:
    """A compiled computation: `run` executes it."""

    def __init__(self, client: LocalClient, module: Module, executable: ModuleExecutable) -> None:
        self.client = client
        self.executable = executable
        self.program_shape: ProgramShape = module.entry.program_shape
        """The shapes of parameters and result."""
        self._leaves = tuple(parameter_leaves(module))

    def run(self, arguments: Sequence[Any], *, consume: bool = False) -> Any:
        """Return the result for the leaves of the parameters, depth first.

        An unsigned array of equal width is read as the parameter's type, and a Python number is
        converted to it. With `consume`, arguments that are aliased or donated may be overwritten.
        Raises InputError, which names the argument, what is expected and what was found.
        """
        return self.executable(*self._checked(arguments), consume=consume)

    def _checked(self, arguments: Sequence[Any]) -> list[Array]:
        if len(arguments) != len(self._leaves):
            raise InputError(
                f"expected {len(self._leaves)} arguments, found {len(arguments)}"
                + missing_text(self._leaves, len(arguments))
            )
        pairs = enumerate(zip(self._leaves, arguments, strict=True))
        return [_argument(i, leaf, argument) for i, (leaf, argument) in pairs]

    @property
    def memory(self) -> Any:
        """The report of schema "lowtide.memory/1"."""
        return self.executable.memory

    def as_text(self) -> str:
        """Return the scheduled HLO."""
        return self.executable.as_text()

    def serialize(self) -> bytes:
        """Return the executable as bytes."""
        return self.executable.serialize()


# -- what is compiled ----------------------------------------------------------------------------


def _module_of(computation: Module | SubComputation) -> Module:
    if isinstance(computation, Module):
        return computation
    if not isinstance(computation, SubComputation):
        raise TypeError(
            "expected a Module or a computation of a builder, found "
            f"{type(computation).__name__}: call build() or build_computation() of the builder"
        )
    source = computation.computation
    module = Module(source.name)
    module.entry = clone_computation(source, module)
    return module


def _laid_out(module: Module, layouts: Sequence[Shape]) -> Module:
    program = module.entry_layout or module.entry.program_shape
    parameters = module.entry.parameters
    if len(layouts) != len(parameters):
        raise InputError(f"{len(parameters)} argument layouts expected, found {len(layouts)}")
    for number, (parameter, shape) in enumerate(zip(parameters, layouts, strict=True)):
        if not isinstance(shape, Shape):
            raise TypeError(f"argument layout {number}: expected a Shape, found {shape!r}")
        if not parameter.shape.compatible(shape):
            raise InputError(
                f"argument layout {number} (parameter %{parameter.name}): expected "
                f"{parameter.shape.text(layout=False)}, found {shape.text(layout=False)}"
            )
    module = clone_module(module)
    module.entry_layout = ProgramShape(tuple(layouts), program.result, program.parameter_names)
    return module


# -- arguments -----------------------------------------------------------------------------------


def _argument(number: int, leaf: Leaf, argument: Any) -> Array:
    shape = leaf.shape
    dtype = DTYPES[shape.element_type]
    array = opened_array(argument)
    if isinstance(argument, bool | int | float | complex) and shape.rank == 0:
        return _number(number, leaf, argument)
    if not _is_read_as(array.dtype, shape.element_type) or not sizes_fit(array.shape, shape):
        raise InputError(
            f"argument {number}, {leaf}: expected {shape.text(layout=False)} (dtype {dtype.name}), "
            f"found {type_text(array)}"
        )
    return array


def _number(number: int, leaf: Leaf, value: complex) -> Array:
    dtype = DTYPES[leaf.shape.element_type]
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"argument {number}, {leaf}, cannot be {value!r}: {error}") from error


def _is_read_as(dtype: np.dtype[Any], element_type: ElementType) -> bool:
    expected = DTYPES[element_type]
    return dtype == expected or (dtype.kind == "u" and dtype.itemsize == expected.itemsize)
