"""Nodes with attributes drawn at random, other ones for each axis, beside NumPy and ONNX."""

import numpy as np
import pytest
from tests.frontend.graphs.cases import Case, check, run_onnx

onnx = pytest.importorskip("onnx", reason="the reference evaluator comes with the package onnx")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

OPSET = 21
SEEDS = range(6)


def judged(op, inputs, attributes):
    """The results of the reference evaluator for one node."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    given = dict(zip(names, inputs, strict=True))
    types = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
    ]
    made = helper.make_tensor_value_info("y", 0, None)
    graph = helper.make_graph([node], "g", types, [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    return ReferenceEvaluator(model).run(None, given)


def compare(op, inputs, attributes):
    case = Case(op, inputs, judged(op, inputs, attributes), attributes)
    check(case, run_onnx(case))


def floats(rng, *sizes):
    return rng.normal(size=sizes).astype(np.float32)


def window(rng, x):
    """Attributes of a window over all but the first two dimensions."""
    rank = x.ndim - 2
    kernel = rng.integers(1, 4, rank)
    dilations = rng.integers(1, 3, rank)
    reach = (kernel - 1) * dilations + 1
    low = np.array([rng.integers(0, k) for k in kernel])
    high = np.array([rng.integers(0, k) for k in kernel])
    stride = rng.integers(1, 4, rank)
    fits = bool((np.array(x.shape[2:]) + low + high >= reach).all())
    found = {"kernel_shape": kernel, "strides": stride, "pads": [*low, *high]}
    found = {name: [int(v) for v in values] for name, values in found.items()}
    return found | {"dilations": [int(v) for v in dilations]}, fits


def drawn_windows(seed):
    rng = np.random.default_rng(seed)
    while True:
        x = floats(rng, 2, 3, *rng.integers(4, 9, rng.integers(1, 3)))
        attributes, fits = window(rng, x)
        if fits:
            return rng, x, attributes


def pooled(x, how, reduce, padding, beyond):
    """What `reduce` gives of each window; `beyond` stands where `ceil_mode` reaches too far."""
    rank = x.ndim - 2
    low, high = how["pads"][:rank], how["pads"][rank:]
    counts = []
    for i in range(rank):
        reach = (how["kernel_shape"][i] - 1) * how["dilations"][i] + 1
        span = x.shape[i + 2] + low[i] + high[i] - reach
        count = (
            -(-span // how["strides"][i]) if how["ceil_mode"] else span // how["strides"][i]
        ) + 1
        starts_behind = (count - 1) * how["strides"][i] >= x.shape[i + 2] + low[i]
        counts.append(count - starts_behind if how["ceil_mode"] else count)
    wide = np.pad(x, [(0, 0)] * 2 + [*zip(low, high, strict=True)], constant_values=padding)
    wide = np.pad(wide, [(0, 0)] * 2 + [(0, 9)] * rank, constant_values=beyond)
    found = np.empty((*x.shape[:2], *counts), x.dtype)
    for place in np.ndindex(*counts):
        rows = zip(place, how["kernel_shape"], how["strides"], how["dilations"], strict=True)
        part = [slice(at * s, at * s + k * d, d) for at, k, s, d in rows]
        found[(..., *place)] = reduce(wide[(..., *part)], axis=tuple(range(2, x.ndim)))
    return found


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("ceil", [0, 1])
def test_pools(seed, ceil):
    """By NumPy: the reference evaluator takes other windows where padding is uneven."""
    _, x, how = drawn_windows(seed)
    how["ceil_mode"] = ceil
    for op, more, *how_to in (
        ("MaxPool", {}, np.max, -np.inf, -np.inf),
        ("AveragePool", {"count_include_pad": 0}, np.nanmean, np.nan, np.nan),
        ("AveragePool", {"count_include_pad": 1}, np.nanmean, 0, np.nan),
    ):
        case = Case(op, [x], [pooled(x, how, *how_to)], {**how, **more})
        if np.isfinite(case.results[0]).all():  # A window in the padding alone has no mean.
            check(case, run_onnx(case))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_squares_of_channels_near_by(size):
    """By NumPy: the reference evaluator reads as many channels as the batch has entries."""
    x = floats(np.random.default_rng(size), 2, 6, 3, 4)
    total = np.zeros_like(x)
    for channel in range(6):
        first = channel - (size - 1) // 2
        total[:, channel] = (x[:, max(first, 0) : first + size] ** 2).sum(1)
    how = {"size": size, "alpha": 0.7, "beta": 0.6, "bias": 1.3}
    case = Case("LRN", [x], [x / (1.3 + 0.7 / size * total) ** 0.6], how)
    check(case, run_onnx(case))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_quantized_numbers_with_ties_and_ends(seed, kind):
    """Halves go to even before an odd zero point is added."""
    rng = np.random.default_rng(seed)
    zero = kind(2 * rng.integers(0, 40) + 1)
    x = (rng.integers(-400, 400, (4, 9)) / 2).astype(np.float32)
    compare("QuantizeLinear", [x, np.float32(1), zero], {})
    scales = (2.0 ** rng.integers(-2, 3, 9)).astype(np.float32)
    zeros = rng.integers(1, 90, 9).astype(kind)
    compare("QuantizeLinear", [x, scales, zeros], {"axis": 1})
    compare("DequantizeLinear", [rng.integers(0, 127, (4, 9)).astype(kind), scales, zeros], {})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_products_of_integers(seed, kind):
    """Every other product of the second kind is a half, before an odd zero point."""
    rng = np.random.default_rng(seed)
    zeros = [int(2 * rng.integers(4, 40) + 1) for _ in range(3)]
    x, y = [z + rng.integers(-4, 5, n) for z, n in zip(zeros, ((3, 5), (5, 4)), strict=False)]
    wide = (x - zeros[0]) @ (y - zeros[1])
    x, y = x.astype(kind), y.astype(kind)
    given = [kind(z) for z in zeros]
    compare("MatMulInteger", [x, y, *given[:2]], {})
    scales = [np.float32(n) for n in (0.5, 2, 2)]
    inputs = [x, scales[0], given[0], y, scales[1], given[1], scales[2], given[2]]
    ends = np.iinfo(kind)
    wanted = np.clip(np.rint(wide * 0.5) + zeros[2], ends.min, ends.max).astype(kind)
    case = Case("QLinearMatMul", inputs, [wanted])
    check(case, run_onnx(case))


@pytest.mark.parametrize("seed", SEEDS)
def test_elements_by_indices(seed):
    rng = np.random.default_rng(seed)
    x = floats(rng, 4, 3, 5)
    lengths = rng.integers(1, 5, 3)
    compare("ReverseSequence", [x, lengths], {"time_axis": 0, "batch_axis": 1})
    turned = {"time_axis": 1, "batch_axis": 0}
    compare("ReverseSequence", [x, rng.integers(1, 4, 4)], turned)
    places = rng.integers(-3, 3, (4, 2, 1))
    compare("GatherND", [x, places], {"batch_dims": 1})
    places = np.stack([rng.permutation(np.arange(-4, 0))[:2], rng.integers(0, 3, 2)], 1)
    compare("ScatterND", [x, places, floats(rng, 2, 5)], {"reduction": "add"})


# -- recurrent layers, by the equations of ONNX's operators ----------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn(x, h, _c, w, r, b, _p, _how):
    return np.tanh(x @ w.T + h @ r.T + b.reshape(2, -1).sum(0)), None


def gru(x, h, _c, w, r, b, _p, how):
    wz, wr, wh = np.split(w, 3)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh, cz, cr, ch = np.split(b, 6)
    z = sigmoid(x @ wz.T + h @ rz.T + bz + cz)
    reset = sigmoid(x @ wr.T + h @ rr.T + br + cr)
    if how.get("linear_before_reset"):
        new = np.tanh(x @ wh.T + reset * (h @ rh.T + ch) + bh)
    else:
        new = np.tanh(x @ wh.T + (reset * h) @ rh.T + ch + bh)
    return (1 - z) * new + z * h, None


def lstm(x, h, c, w, r, b, p, how):
    i, o, f, g = np.split(x @ w.T + h @ r.T + b.reshape(2, -1).sum(0), 4, 1)
    pi, po, pf = np.split(p, 3)
    i = sigmoid(i + pi * c)
    f = 1 - i if how.get("input_forget") else sigmoid(f + pf * c)
    c = f * c + i * np.tanh(g)
    return sigmoid(o + po * c) * np.tanh(c), c


LAYERS = {"RNN": (1, rnn), "GRU": (3, gru), "LSTM": (4, lstm)}
WAYS = {"forward": [1], "reverse": [-1], "bidirectional": [1, -1]}


def layer(kind, how, x, w, r, b, lengths, h0, c0, p):
    """All hidden states, and the last ones, of each direction; steps beyond the length are 0."""
    cell = LAYERS[kind][1]
    length, batch, _ = x.shape
    found = np.zeros((length, w.shape[0], batch, r.shape[2]), np.float32)
    h, c = h0.copy(), c0.copy()
    for way, sign in enumerate(WAYS[how["direction"]]):
        for entry in range(batch):
            for t in range(lengths[entry])[::sign]:
                state = h[way, entry : entry + 1], c[way, entry : entry + 1]
                given = x[t, entry : entry + 1]
                new, cells = cell(given, *state, w[way], r[way], b[way], p[way], how)
                found[t, way, entry] = h[way, entry] = new[0]
                if cells is not None:
                    c[way, entry] = cells[0]
    return found, h, c


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("seed", range(2))
def test_recurrent_layers(kind, way, seed):
    rng = np.random.default_rng(seed)
    length, batch, width, hidden = 5, 3, 4, 2
    gates, ways = LAYERS[kind][0], len(WAYS[way])
    x = floats(rng, length, batch, width)
    w, r = floats(rng, ways, gates * hidden, width), floats(rng, ways, gates * hidden, hidden)
    b, p = floats(rng, ways, 2 * gates * hidden), floats(rng, ways, 3 * hidden)
    lengths = np.array([length, 1, 3], np.int32)
    h, c = floats(rng, ways, batch, hidden), floats(rng, ways, batch, hidden)
    how = {"hidden_size": hidden, "direction": way}
    if kind == "GRU":
        how["linear_before_reset"] = seed
    if kind == "LSTM":
        how["input_forget"] = seed
    wanted = layer(kind, how, x, w, r, b, lengths, h, c, p)
    more = [c, p] if kind == "LSTM" else []
    results = [*wanted[: 3 if kind == "LSTM" else 2]]
    case = Case(kind, [x, w, r, b, lengths, h, *more], results, how, 1e-5)
    check(case, run_onnx(case))
