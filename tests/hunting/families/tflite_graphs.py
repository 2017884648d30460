"""TFLite graphs, floats and quantized, beside the evaluator and LiteRT's kernels."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module, util
from random import Random
from typing import Any, Final, final

import numpy as np
from tests.hunting.cells import Cell
from tests.hunting.coverage import CellCounts
from tests.hunting.families.lines import Document, LineFamily, compare, documents, drawn_array
from tests.hunting.family import HuntedCase
from tests.hunting.findings import Court, Judgement, Tell
from tests.hunting.lite_models import DraftOperator, LiteTensorText, lite_model

from lowtide.evaluator import array_leaves, evaluate
from lowtide.frontend.tflite.compiling import compile_tflite
from lowtide.frontend.tflite.model import read_tflite
from lowtide.ir.literal import Array

_UNARY: Final = (
    *("ABS", "COS", "ELU", "EXP", "HARD_SWISH", "LOGISTIC", "NEG", "RELU", "RELU6", "SIN"),
    *("SQUARE", "TANH", "LOG", "SQRT", "RSQRT", "LOG_SOFTMAX", "RELU_N1_TO_1"),
)
_BINARY: Final = ("ADD", "MUL", "SUB", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "DIV")
_MOVES: Final = (
    *("RESHAPE", "TRANSPOSE", "CONCATENATION", "PAD", "GATHER", "STRIDED_SLICE", "MIRROR_PAD"),
    *("TILE", "REVERSE_V2", "SLICE", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"),
)
_LAYERS: Final = (
    *("SOFTMAX", "MEAN", "FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"),
    *("MAX_POOL_2D", "AVERAGE_POOL_2D", "SUM", "REDUCE_MAX", "CUMSUM", "BATCH_MATMUL"),
    *("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "GELU", "LEAKY_RELU", "L2_NORMALIZATION"),
)
_QUANTIZED: Final = (
    *("ADD", "SUB", "MUL", "RELU", "RELU6", "MAX_POOL_2D", "AVERAGE_POOL_2D", "PAD", "RESHAPE"),
    *("TRANSPOSE", "FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "LOGISTIC", "TANH"),
    *("SOFTMAX", "CONCATENATION", "GATHER", "STRIDED_SLICE", "TILE", "REVERSE_V2", "SLICE"),
    *("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "REDUCE_MAX", "RESIZE_NEAREST_NEIGHBOR"),
)
_SIZES: Final = (
    *((1, 6, 5, 4), (2, 5, 4, 3), (1, 12), (3, 4, 2), (1, 7, 8, 2), (1, 22, 20, 16), (2, 300)),
    *((5, 33, 17), (1, 8, 6, 4)),
)


@final
class LiteGraphs(LineFamily):
    """Chains of one to four operators with a second path here and there."""

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The operators by the type that they compute on."""
        floats = (*_UNARY, *_BINARY, *_MOVES, *_LAYERS)
        rows = [*[("float32", x) for x in floats], *[("int8", x) for x in _QUANTIZED]]
        return {"operator": tuple([("operator", x, t) for t, x in rows])}

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a graph with the operator that was seen least."""
        _, wanted, type_ = counts.least(self.tables["operator"], random)
        names = (*_UNARY, *_BINARY, *_MOVES, *_LAYERS) if type_ == "float32" else _QUANTIZED
        draft = LiteDraft(random, type_)
        before = random.choices(names, k=random.randint(0, 2))
        for name in (*before, wanted, *random.choices(names, k=random.randint(0, 1))):
            draft.add(name)
        cells = frozenset({("operator", x, type_) for x in draft.names})
        return HuntedCase("\n".join([json.dumps(x) for x in draft.lines]), seed, cells)

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return where native code, the evaluator and LiteRT differ."""
        court = Court(tell)
        _judge(court, case)
        return court.judgement()


# -- drawing -------------------------------------------------------------------------------------


@final
class LiteDraft:
    """A graph in the making: `sizes`, `scale` and `zero` are those of the last value."""

    def __init__(self, random: Random, type_: str) -> None:
        self.random = random
        self.type = type_
        self.lines: list[Document] = []
        self.names: set[str] = set()
        self.sizes: tuple[int, ...] = random.choice(_SIZES)
        self.scale, self.zero = self._quantization()
        self.last = self._line("input", sizes=self.sizes)

    def _quantization(self) -> tuple[float, int]:
        if self.type == "float32":
            return 0.0, 0
        return self.random.choice((0.05, 0.013, 0.1)), self.random.randint(-20, 20)

    def _line(self, kind: str, **rest: Any) -> str:
        name = f"v{len(self.lines)}"
        base = {"type": self.type, "scale": self.scale, "zero": self.zero}
        self.lines.append({kind: name, **base, **rest})
        return name

    def _constant(
        self, values: Any, sizes: Sequence[int], type_: str = "int32", **rest: Any
    ) -> str:
        base = {"scale": 0.0, "zero": 0, **rest}
        return self._line("constant", sizes=sizes, values=values, **{**base, "type": type_})

    def add(self, name: str) -> None:
        """Add an operator of the last value, if it can take that."""
        draw = _DRAWN.get(name, LiteDraft._unary)
        draw(self, name)

    def _node(
        self, name: str, others: Sequence[str], sizes: Sequence[int], **options: float
    ) -> None:
        of = [self.last, *others]
        fields = {x.removeprefix("f"): y for x, y in options.items()}
        self.sizes = tuple(sizes)
        result = f"v{len(self.lines)}"
        self._line("result", node=name, of=of, sizes=self.sizes, options=fields)
        self.last = result
        self.names.add(name)

    def _unary(self, name: str) -> None:
        if name in ("LOGISTIC", "TANH") and self.type == "int8":
            self.scale, self.zero = (1 / 256, -128) if name == "LOGISTIC" else (1 / 128, 0)
        self._node(name, [], self.sizes)

    def _of_positive(self, name: str) -> None:
        self._node("LOGISTIC", [], self.sizes)
        self._node(name, [], self.sizes)

    def _divided(self, name: str) -> None:
        """A quotient that is finite: LiteRT has no infinities."""
        sizes = [self.sizes[-1]]
        by = [self.random.choice((-2.0, -0.375, 0.5, 1.0, 3.0)) for _ in range(sizes[0])]
        other = self._constant(by, sizes, "float32")
        self._node(name, [other], self.sizes, f0=self.random.choice((0, 1, 3)))

    def _binary(self, name: str) -> None:
        given = (self.scale, self.zero)
        if self.type == "int8":
            self.scale, self.zero = self._quantization()
        sizes = self.random.choice((self.sizes, self.sizes, (1,) * len(self.sizes)))
        other = self._line("input", sizes=sizes)
        if self.type == "int8":
            factor = 3 if name == "MUL" else 2
            self.scale, self.zero = given[0] * factor, self.random.randint(-9, 9)
        self._node(name, [other], self.sizes, f0=self.random.choice((0, 0, 1, 3)))

    def _softmax(self, name: str) -> None:
        if self.type == "int8":
            self.scale, self.zero = 1 / 256, -128
        self._node(name, [], self.sizes, f0=self.random.choice((1.0, 0.5)))

    def _leaky(self, name: str) -> None:
        self._node(name, [], self.sizes, f0=self.random.choice((0.25, 1.5)))

    def _to_length(self, name: str) -> None:
        self._node(name, [], self.sizes, f0=0)

    def _tile(self, name: str) -> None:
        times = [self.random.choice((1, 1, 2)) for _ in self.sizes]
        places = self._constant(times, [len(times)])
        self._node(name, [places], [n * k for n, k in zip(self.sizes, times, strict=True)])

    def _reversed(self, name: str) -> None:
        axis = self.random.randrange(len(self.sizes))
        self._node(name, [self._constant([axis], [1])], self.sizes)

    def _part(self, name: str) -> None:
        starts = [self.random.randrange(n) for n in self.sizes]
        sizes = [self.random.randint(1, n - s) for n, s in zip(self.sizes, starts, strict=True)]
        self._node(name, [self._constant(x, [len(x)]) for x in (starts, sizes)], sizes)

    def _mirrored(self, name: str) -> None:
        mode = self.random.randrange(2)  # With the outermost elements, or without.
        most = [min(2, n - 1 + mode) for n in self.sizes]
        widths = [[self.random.randint(0, x), self.random.randint(0, x)] for x in most]
        sizes = [n + a + b for n, (a, b) in zip(self.sizes, widths, strict=True)]
        places = self._constant(widths, [len(widths), 2])
        self._node(name, [places], sizes, f0=mode)

    def _blocks(self, name: str) -> None:
        if len(self.sizes) != 4:
            return self._unary("RELU")
        n, h, w, c = self.sizes
        if name == "DEPTH_TO_SPACE" and c % 4 == 0:
            return self._node(name, [], [n, 2 * h, 2 * w, c // 4], f0=2)
        if name == "SPACE_TO_DEPTH" and h % 2 == w % 2 == 0:
            return self._node(name, [], [n, h // 2, w // 2, 4 * c], f0=2)
        return self._unary("RELU")

    def _running(self, name: str) -> None:
        axis = self._constant(self.random.randrange(len(self.sizes)), [])
        ways = {"f0": self.random.randrange(2), "f1": self.random.randrange(2)}
        self._node(name, [axis], self.sizes, **ways)

    def _product(self, name: str) -> None:
        if len(self.sizes) < 2:
            return self._unary("RELU")
        columns, turned = self.random.choice((1, 3, 20)), self.random.randrange(2)
        *batch, rows, inner = self.sizes
        sizes = (*batch, columns, inner) if turned else (*batch, inner, columns)
        other = self._line("input", sizes=sizes)
        return self._node(name, [other], [*batch, rows, columns], f0=0, f1=turned)

    def _resized(self, name: str) -> None:
        if len(self.sizes) != 4:
            return self._unary("RELU")
        n, h, w, c = self.sizes
        sizes = [self.random.choice((k, 2 * k, max(1, k // 2), k + 3)) for k in (h, w)]
        way = self.random.choice(((0, 0), (0, 0), (1, 0), (0, 1)))
        first = 2 if name == "RESIZE_BILINEAR" else 0
        ways = {f"f{first + i}": x for i, x in enumerate(way)}
        return self._node(name, [self._constant(sizes, [2])], [n, *sizes, c], **ways)

    def _mean(self, name: str) -> None:
        count = min(self.random.randint(1, 2), len(self.sizes))
        axes = self.random.sample(range(len(self.sizes)), count)
        keep = self.random.randrange(2)
        if len(axes) == len(self.sizes):
            keep = 1
        kept = [1 if i in axes else n for i, n in enumerate(self.sizes) if keep or i not in axes]
        self._node(name, [self._constant(axes, [len(axes)])], kept, f0=keep)

    def _reshape(self, name: str) -> None:
        sizes = [*self.sizes]
        self.random.shuffle(sizes)
        if len(sizes) > 1:
            sizes = [sizes[0] * sizes[1], *sizes[2:]]
        self._node(name, [self._constant(sizes, [len(sizes)])], sizes)

    def _transpose(self, name: str) -> None:
        order = self.random.sample(range(len(self.sizes)), len(self.sizes))
        places = self._constant(order, [len(order)])
        self._node(name, [places], [self.sizes[i] for i in order])

    def _concatenation(self, name: str) -> None:
        axis = self.random.randrange(len(self.sizes))
        other = self._line("input", sizes=self.sizes)
        sizes = [2 * n if i == axis else n for i, n in enumerate(self.sizes)]
        self._node(name, [other], sizes, f0=axis, f1=0)

    def _pad(self, name: str) -> None:
        widths = [[self.random.randrange(3), self.random.randrange(2)] for _ in self.sizes]
        sizes = [n + a + b for n, (a, b) in zip(self.sizes, widths, strict=True)]
        self._node(name, [self._constant(widths, [len(widths), 2])], sizes)

    def _gather(self, name: str) -> None:
        axis = self.random.randrange(len(self.sizes))
        places = [self.random.randrange(self.sizes[axis]) for _ in range(3)]
        sizes = [3 if i == axis else n for i, n in enumerate(self.sizes)]
        self._node(name, [self._constant(places, [3])], sizes, f0=axis)

    def _strided(self, name: str) -> None:
        starts = [self.random.randrange(n) for n in self.sizes]
        steps = [self.random.choice((1, 1, 2)) for _ in self.sizes]
        pairs = zip(self.sizes, starts, steps, strict=True)
        sizes = [len(range(s, n, k)) for n, s, k in pairs]
        parts = [self._constant(x, [len(x)]) for x in (starts, [*self.sizes], steps)]
        self._node(name, parts, sizes, f0=0, f1=0, f2=0, f3=0, f4=0)

    def _weights(self, sizes: Sequence[int], columns: int) -> list[str]:
        """Weights and a bias of an operator."""
        count = int(np.prod(sizes))
        if self.type == "float32":
            values = [self.random.randint(-8, 8) / 8 for _ in range(count)]
            bias = [self.random.randint(-8, 8) / 8 for _ in range(columns)]
            return [
                self._constant(values, sizes, "float32"),
                self._constant(bias, [columns], "float32"),
            ]
        scale = 0.013
        whole = [self.random.randint(-127, 127) for _ in range(count)]
        large = [self.random.randint(-500, 500) for _ in range(columns)]
        return [
            self._constant(whole, sizes, "int8", scale=scale),
            self._constant(large, [columns], "int32", scale=self.scale * scale),
        ]

    def _dense(self, name: str) -> None:
        rows, columns = int(np.prod(self.sizes[:-1])), self.random.choice((1, 3, 8))
        others = self._weights([columns, self.sizes[-1]], columns)
        self._rescale()
        self._node(name, others, [rows, columns], f0=self.random.choice((0, 1, 3)))

    def _rescale(self) -> None:
        if self.type == "int8":
            self.scale, self.zero = self.scale * 2.3, self.random.randint(-9, 9)

    def _window(self, name: str) -> None:
        if len(self.sizes) != 4:
            return self._unary("RELU")
        random, (batch, rows, columns, features) = self.random, self.sizes
        kernel = [random.randint(1, min(3, n)) for n in (rows, columns)]
        steps = [random.choice((1, 2)) for _ in kernel]
        same = random.randrange(2)
        pairs = zip((rows, columns), kernel, steps, strict=True)
        sizes = [-(-(n if same else n - k + 1) // s) for n, k, s in pairs]
        ways = {"f0": 1 - same, "f1": steps[1], "f2": steps[0]}
        activation = random.choice((0, 1, 3))
        if "POOL" in name:
            ways |= {"f3": kernel[1], "f4": kernel[0], "f5": activation}
            return self._node(name, [], [batch, *sizes, features], **ways)
        if name == "CONV_2D":
            made = random.choice((1, 5))
            others = self._weights([made, *kernel, features], made)
            ways |= {"f3": activation, "f4": 1, "f5": 1}
        else:
            times = random.choice((1, 2))
            made = features * times
            others = self._weights([1, *kernel, made], made)
            ways |= {"f3": times, "f4": activation, "f5": 1, "f6": 1}
        self._rescale()
        return self._node(name, others, [batch, *sizes, made], **ways)


_DRAWN: Final[dict[str, Callable[[LiteDraft, str], None]]] = {
    **dict.fromkeys(_BINARY, LiteDraft._binary),
    "SOFTMAX": LiteDraft._softmax,
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX"), LiteDraft._mean),
    "LEAKY_RELU": LiteDraft._leaky,
    "L2_NORMALIZATION": LiteDraft._to_length,
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), LiteDraft._blocks),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), LiteDraft._resized),
    **dict.fromkeys(("LOG", "SQRT", "RSQRT"), LiteDraft._of_positive),
    "DIV": LiteDraft._divided,
    "TILE": LiteDraft._tile,
    "REVERSE_V2": LiteDraft._reversed,
    "SLICE": LiteDraft._part,
    "MIRROR_PAD": LiteDraft._mirrored,
    "CUMSUM": LiteDraft._running,
    "BATCH_MATMUL": LiteDraft._product,
    "RESHAPE": LiteDraft._reshape,
    "TRANSPOSE": LiteDraft._transpose,
    "CONCATENATION": LiteDraft._concatenation,
    "PAD": LiteDraft._pad,
    "GATHER": LiteDraft._gather,
    "STRIDED_SLICE": LiteDraft._strided,
    "FULLY_CONNECTED": LiteDraft._dense,
    **dict.fromkeys(
        ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"), LiteDraft._window
    ),
}


# -- judging -------------------------------------------------------------------------------------


def _judge(court: Court, case: HuntedCase) -> None:
    lines = documents(case.text)
    content = court.ask("file", lambda: _content(lines), is_ours=False)
    if content is None:
        return
    given = [x for x in lines if "input" in x]
    random = np.random.default_rng(case.conditions)
    feeds = [drawn_array(x["type"], x["sizes"], random) for x in given]
    feeds = [(x * 15).astype(x.dtype) if x.dtype == np.int8 else x for x in feeds]
    program = court.ask("reader", lambda: compile_tflite(read_tflite(content)))
    if program is None:
        return
    expected = court.ask("evaluator", lambda: array_leaves(evaluate(program.module, feeds)))
    interpreters = import_module("lowtide.tflite")
    native = court.ask("native", lambda: _run(interpreters.Interpreter(None, content), feeds))
    if expected is None or native is None:
        return
    rounded = [True] * len(expected)
    compare(court, "native", native, expected, rounded)
    if util.find_spec("ai_edge_litert") is not None:
        theirs = court.ask("litert", lambda: _run(_litert(content, lines), feeds), is_ours=False)
        if theirs is not None:
            compare(court, "litert", native, theirs, rounded)


def _content(lines: Sequence[Document]) -> bytes:
    """The file of the lines; its results are what no operator reads."""
    numbers = {_name(x): i for i, x in enumerate(lines)}
    tensors = [
        LiteTensorText(x["type"], tuple(x["sizes"]), x["scale"], x["zero"], x.get("values"))
        for x in lines
    ]
    read = {y for x in lines for y in x.get("of", ())}
    operators = [
        DraftOperator(
            x["node"],
            tuple([numbers[y] for y in x["of"]]),
            (numbers[x["result"]],),
            {int(k): v for k, v in x["options"].items()},
        )
        for x in lines
        if "node" in x
    ]
    inputs = [numbers[x["input"]] for x in lines if "input" in x]
    outputs = [numbers[x["result"]] for x in lines if "node" in x and x["result"] not in read]
    return lite_model(tensors, operators, inputs, outputs)


def _name(x: Document) -> str:
    return str(x.get("input") or x.get("constant") or x["result"])


def _litert(content: bytes, lines: Sequence[Document]) -> Any:
    """LiteRT's interpreter: its reference kernels for integers, which are exact.

    Raises ValueError for sums of 8-bit numbers that those round once, in FULLY_CONNECTED: all other
    kernels, and tflite-micro's for it, round the product and then what is shifted.
    """
    litert = import_module("ai_edge_litert.interpreter")
    is_float = any(x["type"] == "float32" for x in lines if "input" in x)
    if not is_float and any(x.get("node") == "FULLY_CONNECTED" for x in lines):
        raise ValueError("LiteRT rounds sums of FULLY_CONNECTED once")
    kind = "BUILTIN_WITHOUT_DEFAULT_DELEGATES" if is_float else "BUILTIN_REF"
    resolver = litert.OpResolverType[kind]
    return litert.Interpreter(model_content=content, experimental_op_resolver_type=resolver)


def _run(interpreter: Any, values: Sequence[Array]) -> list[Array]:
    interpreter.allocate_tensors()
    for entry, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(x["index"]) for x in interpreter.get_output_details()]
