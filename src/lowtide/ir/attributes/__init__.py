"""The attributes of each opcode, one frozen record per form.

An instruction holds exactly one record; `NO_ATTRIBUTES` where its opcode has none. Computations
which an instruction calls are not attributes: they stand in `Instruction.called_computations`.

Each field says how it looks in text and in protobuf. `Slice` and `Domain` do not: each of them is
one attribute in text, which is read and written as a whole.
"""

from lowtide.ir.attributes.arithmetic import (
    BatchNorm,
    Cholesky,
    Compare,
    Fft,
    ReducePrecision,
    Rng,
    RngBitGenerator,
    RngGetAndUpdateState,
    TriangularSolve,
    default_comparison,
)
from lowtide.ir.attributes.base import NO_ATTRIBUTES, Attributes
from lowtide.ir.attributes.communication import (
    Channel,
    Collective,
    CollectivePermute,
    Domain,
    Infeed,
    Outfeed,
)
from lowtide.ir.attributes.data_movement import (
    Constant,
    Dimensions,
    DynamicSlice,
    Gather,
    Iota,
    Pad,
    PaddingDimension,
    Parameter,
    Reshape,
    Scatter,
    Slice,
)
from lowtide.ir.attributes.structure import (
    MAIN_THREAD,
    Aliasing,
    Async,
    Call,
    Conditional,
    CopyStart,
    CustomCall,
    Fusion,
    GetTupleElement,
)
from lowtide.ir.attributes.windows import (
    DEFAULT_PRECISION,
    NO_WINDOW,
    Convolution,
    ConvolutionDimensions,
    Dot,
    DotAlgorithm,
    DotDimensions,
    Precision,
    PrecisionConfig,
    RaggedDot,
    ReduceWindow,
    Scan,
    Sort,
    TopK,
    Window,
    WindowDimension,
)
