"""Models of one recurrent operator each, quantized or with weights of 8 bits, with drawn cells."""

import numpy as np
from tests.frontend.tflite.making import Graph

CELLS, WIDTH, BATCH, STEPS = 6, 7, 2, 4


class _Drawn:
    """Constants of a graph, drawn from a seed."""

    def __init__(self, graph, seed):
        self.graph = graph
        self.generator = np.random.default_rng(seed)

    def real(self, low, high):
        return float(self.generator.uniform(low, high))

    def zero(self):
        return int(self.generator.integers(-20, 20))

    def bytes(self, *sizes, scales=(0.003, 0.02)):
        values = self.generator.integers(-127, 128, sizes)
        return self.graph.constant(values, "int8", self.real(*scales), 0)

    def halves(self, *sizes, scales):
        values = self.generator.integers(-32767, 32768, sizes)
        return self.graph.constant(values, "int16", self.real(*scales), 0)

    def words(self, *sizes, most, scale=1e-4):
        values = self.generator.integers(-most, most + 1, sizes)
        return self.graph.constant(values, "int32", scale, 0)

    def floats(self, *sizes):
        return self.graph.constant(self.generator.uniform(-1, 1, sizes), "float32")


def _gates(make, coupled):
    return [-1 if coupled and i == 0 else make() for i in range(4)]


def _peepholes(make, has_them, coupled):
    return [make() if has_them and (i or not coupled) else -1 for i in range(3)]


def _shapes(name, major, out):
    if name == "LSTM":
        return (BATCH, WIDTH), (BATCH, out)
    front = (STEPS, BATCH) if major else (BATCH, STEPS)
    return (*front, WIDTH), (*front, out)


def quantized(
    name="UNIDIRECTIONAL_SEQUENCE_LSTM",
    coupled=False,
    peepholes=False,
    normalized=False,
    projected=0,
    projection_bias=False,
    clips=(0.0, 0.0),
    major=False,
    bits=4,
    coarse=False,
    seed=1,
):
    """An LSTM of 8-bit numbers, whose cells of 16 bits have some integer bits.

    Normalized sums are a few units only where they are `coarse`.
    """
    graph, out = Graph(), projected or CELLS
    drawn = _Drawn(graph, seed)
    given, made = _shapes(name, major, out)
    inputs = [graph.given(given, "int8", drawn.real(0.01, 0.05), drawn.zero())]
    inputs += _gates(lambda: drawn.bytes(CELLS, WIDTH), coupled)
    inputs += _gates(lambda: drawn.bytes(CELLS, out), coupled)
    inputs += _peepholes(lambda: drawn.halves(CELLS, scales=(1e-5, 1e-4)), peepholes, coupled)
    most = 900000 if normalized else 3000
    inputs += _gates(lambda: drawn.words(CELLS, most=most), coupled)
    inputs.append(drawn.bytes(projected, CELLS) if projected else -1)
    inputs.append(drawn.words(projected, most=3000) if projection_bias else -1)
    scale, zero = drawn.real(0.004, 0.01), drawn.zero()
    inputs.append(graph.state((BATCH, out), "int8", scale, zero))
    inputs.append(graph.state((BATCH, CELLS), "int16", 2.0 ** (bits - 15), 0))
    scales = (1e-3, 2e-3) if coarse else (1e-5, 6e-5)
    norms = _gates(lambda: drawn.halves(CELLS, scales=scales), coupled)
    inputs += norms if normalized else [-1] * 4
    between = [
        graph.tensor((1,), "int16", drawn.real(2e-4, 5e-4) * (3e4 if coarse else 1), 0)
        for _ in range(4)
    ]
    between.append(graph.tensor((1,), "int8", drawn.real(0.004, 0.01), drawn.zero()))
    result = graph.tensor(made, "int8", scale, zero)
    options = {0: 4, 1: clips[0], 2: clips[1]}
    options |= {3: int(major)} if name != "LSTM" else {}
    graph.outputs = list(graph.ops(name, inputs, [result], options, between))
    return graph


QUANTIZED = {
    "plain": quantized(),
    "one step": quantized("LSTM", seed=2),
    "one step of all": quantized(
        "LSTM", normalized=True, peepholes=True, projected=4, clips=(2.5, 0.6), seed=3
    ),
    "coupled, clipped": quantized(coupled=True, clips=(1.3, 0.0), seed=4),
    "peepholes, time first": quantized(peepholes=True, major=True, seed=5),
    "normalized": quantized(normalized=True, seed=6),
    "normalized, of variance 0 at times": quantized(normalized=True, coarse=True, seed=13),
    "projected": quantized(projected=4, projection_bias=True, clips=(0.0, 0.3), seed=7),
    "peepholes of a short output": quantized(peepholes=True, projected=4, seed=8),
    "the same, time first": quantized(peepholes=True, projected=4, major=True, seed=9),
    "coupled, of all": quantized(
        coupled=True,
        peepholes=True,
        normalized=True,
        projected=3,
        projection_bias=True,
        clips=(0.9, 0.5),
        seed=10,
    ),
    "cells within 1": quantized(bits=0, seed=11),
    "cells within 64": quantized(bits=6, seed=12),
}


def basic(kind="uint8", zero=111, scale=0.01, seed=1):
    """An LSTM with its weights in one matrix; all of its outputs are outputs."""
    graph, total = Graph(), WIDTH + CELLS
    drawn = _Drawn(graph, seed)
    types = [(kind,)] * 4 if kind == "float32" else _byte_types()
    x = graph.given((BATCH, WIDTH), *types[0])
    held, cell = graph.state((BATCH, CELLS), *types[0]), graph.state((BATCH, CELLS), *types[1])
    if kind == "float32":
        weights, bias = drawn.floats(4 * CELLS, total), drawn.floats(4 * CELLS)
    else:
        values = drawn.generator.integers(0, 256, (4 * CELLS, total))
        weights = graph.constant(values, "uint8", scale, zero)
        bias = drawn.words(4 * CELLS, most=9000, scale=scale / 128)
    sizes = [(BATCH, CELLS), (BATCH, CELLS), (BATCH, total), (BATCH, 4 * CELLS)]
    made = [graph.tensor(x, *y) for x, y in zip(sizes, types, strict=True)]
    inputs = [x, held, weights, bias, cell]
    graph.outputs = list(graph.ops("LSTM", inputs, made, {0: 4, 3: 1}))
    return graph


def _byte_types():
    number = "uint8", 1 / 128, 128
    return [number, ("int16", 2.0**-11, 0), number, ("int16", 2.0**-12, 0)]


BASIC = {
    "bytes": basic(),
    "bytes with a zero point in the middle": basic(zero=128, scale=0.003, seed=2),
    "great scales": basic(zero=3, scale=0.2, seed=3),
}


def hybrid(
    name="UNIDIRECTIONAL_SEQUENCE_LSTM",
    coupled=False,
    peepholes=False,
    normalized=False,
    projected=0,
    clips=(0.0, 0.0),
    major=False,
    with_zero=False,
    seed=1,
):
    """An LSTM of floats with weights of 8 bits."""
    graph, out = Graph(), projected or CELLS
    drawn = _Drawn(graph, seed)
    given, made = _shapes(name, major, out)
    inputs = [graph.given(given)]
    inputs += _gates(lambda: drawn.bytes(CELLS, WIDTH), coupled)
    inputs += _gates(lambda: drawn.bytes(CELLS, out), coupled)
    inputs += _peepholes(lambda: drawn.bytes(CELLS), peepholes, coupled)
    inputs += _gates(lambda: drawn.floats(CELLS), coupled)
    inputs.append(drawn.bytes(projected, CELLS) if projected else -1)
    inputs.append(drawn.floats(projected) if projected else -1)
    inputs += [graph.state((BATCH, out)), graph.state((BATCH, CELLS))]
    inputs += _gates(lambda: drawn.floats(CELLS), coupled) if normalized else [-1] * 4
    options = {0: 4, 1: clips[0], 2: clips[1]}
    if name == "LSTM":
        options |= {4: int(with_zero)}
    else:
        options |= {3: int(major), 4: int(with_zero)}
    graph.outputs = [graph.op(name, inputs, made, options)]
    return graph


def hybrid_rnn(name, with_zero, seed=1):
    """A recurrent layer of floats with weights of 8 bits, one step or a sequence."""
    graph = Graph()
    drawn = _Drawn(graph, seed)
    is_sequence = name != "RNN"
    front = (BATCH, STEPS) if is_sequence else (BATCH,)
    inputs = [graph.given((*front, WIDTH)), drawn.bytes(CELLS, WIDTH), drawn.bytes(CELLS, CELLS)]
    inputs += [drawn.floats(CELLS), graph.state((BATCH, CELLS))]
    options = {0: 0, 1: 4, 2: int(with_zero)} if is_sequence else {0: 4, 1: int(with_zero)}
    graph.outputs = [graph.op(name, inputs, (*front, CELLS), options)]
    return graph


def hybrid_both_ways(with_zero, seed=1):
    """Two LSTMs of floats with weights of 8 bits, one of which goes backwards."""
    graph = Graph()
    drawn = _Drawn(graph, seed)
    inputs = [graph.given((BATCH, STEPS, WIDTH))]
    for _ in range(2):
        inputs += [drawn.bytes(CELLS, WIDTH) for _ in range(4)]
        inputs += [drawn.bytes(CELLS, CELLS) for _ in range(4)]
        inputs += [-1] * 3 + [drawn.floats(CELLS) for _ in range(4)] + [-1, -1]
    inputs += [graph.state((BATCH, CELLS)) for _ in range(4)] + [-1] * 9
    made = [graph.tensor((BATCH, STEPS, CELLS)) for _ in range(2)]
    options = {0: 4, 3: 0, 4: 0, 5: int(with_zero)}
    graph.outputs = list(graph.ops("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, made, options))
    return graph


HYBRID = {
    "with zero points": hybrid(with_zero=True),
    "one step": hybrid("LSTM", peepholes=True, with_zero=True, seed=2),
    "coupled, clipped": hybrid(coupled=True, clips=(0.4, 0.0), seed=3),
    "of all, time first": hybrid(
        peepholes=True, normalized=True, projected=4, clips=(1.5, 0.5), major=True, seed=4
    ),
    "of all with zero points": hybrid(
        coupled=True, peepholes=True, normalized=True, projected=3, with_zero=True, seed=5
    ),
    "both ways": hybrid_both_ways(False, seed=6),
    "both ways with zero points": hybrid_both_ways(True, seed=7),
    "layer": hybrid_rnn("RNN", False, seed=8),
    "layer with zero points": hybrid_rnn("RNN", True, seed=9),
    "sequence": hybrid_rnn("UNIDIRECTIONAL_SEQUENCE_RNN", False, seed=10),
    "sequence with zero points": hybrid_rnn("UNIDIRECTIONAL_SEQUENCE_RNN", True, seed=11),
}


def both_ways(auxiliary, kind="float32", with_zero=False, seed=1):
    """Two LSTMs with an auxiliary input, with weights of its own or as that of the second one."""
    graph = Graph()
    drawn = _Drawn(graph, seed)
    make = drawn.floats if kind == "float32" else drawn.bytes
    x, other = graph.given((BATCH, STEPS, WIDTH)), graph.given((BATCH, STEPS, WIDTH))
    inputs = [x]
    for _ in range(2):
        inputs += [make(CELLS, WIDTH) for _ in range(4)] + [make(CELLS, CELLS) for _ in range(4)]
        inputs += [-1] * 3 + [drawn.floats(CELLS) for _ in range(4)] + [-1, -1]
    inputs += [graph.state((BATCH, CELLS)) for _ in range(4)]
    inputs += [other] + ([make(CELLS, WIDTH) for _ in range(8)] if auxiliary else [-1] * 8)
    made = [graph.tensor((BATCH, STEPS, CELLS)) for _ in range(2)]
    options = {0: 4, 3: 0, 4: 0, 5: int(with_zero)}
    graph.outputs = list(graph.ops("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, made, options))
    return graph


def layers_both_ways(auxiliary, kind="float32", major=False, seed=1):
    """Two recurrent layers with an auxiliary input, as `both_ways`.

    LiteRT gives floats of the second layer another input than its own where a batch comes first.
    """
    graph = Graph()
    drawn = _Drawn(graph, seed)
    make = drawn.floats if kind == "float32" else drawn.bytes
    front = (STEPS, BATCH) if major else (BATCH, STEPS)
    x, other = graph.given((*front, WIDTH)), graph.given((*front, WIDTH))
    inputs = [x]
    for _ in range(2):
        inputs += [make(CELLS, WIDTH), make(CELLS, CELLS), drawn.floats(CELLS)]
        inputs.append(graph.state((BATCH, CELLS)))
    inputs += [other] + ([make(CELLS, WIDTH) for _ in range(2)] if auxiliary else [-1] * 2)
    made = [graph.tensor((*front, CELLS)) for _ in range(2)]
    options = {0: int(major), 1: 4, 2: 0}
    graph.outputs = list(graph.ops("BIDIRECTIONAL_SEQUENCE_RNN", inputs, made, options))
    return graph


def diagonal(kind="float32", seed=1):
    """An LSTM whose recurrent weights are those of diagonal matrices."""
    graph = Graph()
    drawn = _Drawn(graph, seed)
    make = drawn.floats if kind == "float32" else drawn.bytes
    inputs = [graph.given((BATCH, STEPS, WIDTH))]
    inputs += [make(CELLS, WIDTH) for _ in range(4)] + [drawn.floats(CELLS) for _ in range(4)]
    inputs += [-1] * 3 + [drawn.floats(CELLS) for _ in range(4)] + [-1, -1]
    inputs += [graph.state((BATCH, CELLS)), graph.state((BATCH, CELLS))] + [-1] * 4
    options = {0: 4, 5: 1}
    shape = (BATCH, STEPS, CELLS)
    graph.outputs = [graph.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, shape, options)]
    return graph


FLOATS = {
    "auxiliary input": both_ways(True),
    "input of its own": both_ways(False, seed=2),
    "auxiliary input of 8-bit weights": both_ways(True, "int8", True, seed=3),
    "layers with an auxiliary input": layers_both_ways(True, seed=4),
    "layers with an input of their own": layers_both_ways(False, major=True, seed=5),
    "layers of 8-bit weights": layers_both_ways(True, "int8", seed=6),
    "diagonal": diagonal(),
    "diagonal, of 8-bit weights": diagonal("int8", seed=7),
}


def hybrid_svdf(with_zero, rank=2, units=3, memory=5, seed=1):
    """Features of floats filtered over time, with weights of 8 bits."""
    graph, filters = Graph(), rank * units
    drawn = _Drawn(graph, seed)
    inputs = [graph.given((BATCH, WIDTH)), drawn.bytes(filters, WIDTH)]
    inputs += [drawn.bytes(filters, memory), drawn.floats(units)]
    inputs.append(graph.state((BATCH, filters * memory)))
    options = {0: rank, 1: 1, 2: int(with_zero)}
    graph.outputs = [graph.op("SVDF", inputs, (BATCH, units), options)]
    return graph


HYBRID |= {
    "filters": hybrid_svdf(False, seed=12),
    "filters with zero points": hybrid_svdf(True, seed=13),
}
