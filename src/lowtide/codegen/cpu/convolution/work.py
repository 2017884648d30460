"""Parts of the code of a convolution: its functions, a phase, blocks of inputs and panels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from lowtide.codegen.cpu.contraction.finishing import Epilogue
from lowtide.codegen.cpu.convolution.finish import finish_function
from lowtide.codegen.cpu.convolution.panel import panel_function
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.convolution.slab import slab_function
from lowtide.codegen.cpu.convolution.tile import tile_function
from lowtide.ir import Instruction
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass


@dataclass(eq=False, slots=True)
class Convolver:
    """A convolution to be written: its scheme, what follows, and what it slides over.

    Around `data` all elements are `fill`.
    """

    scheme: ConvolutionScheme
    target: Target
    finish: Epilogue
    data: Instruction
    fill: int = 0
    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    @property
    def is_direct(self) -> bool:
        """Whether tiles store results, and not sums that are finished."""
        scheme = self.scheme
        return not (scheme.has_finish or scheme.keeps_sums or scheme.is_shared)

    # -- the functions that the phases call --------------------------------------------------------

    def _needed(self, name: str, write: Callable[[], Function]) -> Function:
        if name not in self.functions:
            self.functions[name] = write()
        return self.functions[name]

    def slab(self, scheme: ConvolutionScheme) -> Function:
        """Return the function that copies the input of a piece of work, or of a tile."""
        name = "slab"
        given = (scheme, self.target, self.finish.kernel, self.data, self.fill, self.constants)
        return self._needed(name, lambda: slab_function(name, *given))

    def panel(self, columns: int) -> Function:
        """Return the function that packs a panel."""
        name, weights = f"panel_{columns}", self.finish.dot.operands[1]
        given = (self.scheme, self.target, self.finish.kernel, weights, columns, self.constants)
        return self._needed(name, lambda: panel_function(name, *given))

    def tile(self, columns: int, scheme: ConvolutionScheme) -> Function:
        """Return the function of a tile: by the scheme, or by that of tiles at the border."""
        is_border = scheme.in_place is not self.scheme.in_place
        name = f"border_{columns}" if is_border else f"tile_{columns}"
        given = (name, scheme, self.target, columns, self.scheme.rests, int(is_border))
        return self._needed(name, lambda: tile_function(*given, is_direct=self.is_direct))

    def finishing(self, columns: int) -> Function:
        """Return the function that finishes the sums of a tile."""
        name = f"finish_{columns}"
        given = (self.scheme, self.target, self.finish, columns, self.constants)
        return self._needed(name, lambda: finish_function(name, *given))


@dataclass(eq=False, slots=True)
class WrittenPhase:
    """A phase while its code is written; the last one adds up shares."""

    fn: Function
    convolver: Convolver
    is_last: bool = False
    thread: str = ""
    input: str = ""
    weights: str = ""
    panel: str = ""
    patch: str = ""
    stack: str = ""

    @property
    def scheme(self) -> ConvolutionScheme:
        """How the products are blocked."""
        return self.convolver.scheme


@dataclass(eq=False, slots=True)
class InputBlock:
    """A block of contracted indices: the first ones and how many, and where the input lies."""

    number: Integer
    feature: Integer
    features: Integer
    firsts: list[Integer]
    taps: list[Integer]
    more: str = "false"
    is_end: str = "true"
    input: str = ""


@dataclass(frozen=True, slots=True)
class PackedPanel:
    """A panel: its number among those of the piece, its first column among those of all groups."""

    number: Integer
    column: Integer
    columns: int
    packed: str
