"""Models of one operator each, as tests of TFLite's kernels try them."""

import numpy as np
from tests.frontend.tflite.making import Graph, Vector

IMAGE = (2, 6, 5, 4)


def drawn(*sizes, seed=2, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, sizes).astype(np.float32)


def whole(*sizes, seed=3, low=-128, high=128, dtype="int8"):
    return np.random.default_rng(seed).integers(low, high, sizes).astype(dtype)


def given(graph, kind):
    """An input of a graph: a shape, or a shape with a type, scale and zero point."""
    if kind and isinstance(kind[0], tuple):
        return graph.given(*kind)
    return graph.given(kind)


def constant(graph, value):
    """A constant: an array, or an array with its scale, zero point and axis."""
    if isinstance(value, tuple):
        array, *quantization = value
        return graph.constant(array, array.dtype.name, *quantization)
    array = np.asarray(value)
    array = array.astype(np.int32) if array.dtype == np.int64 else array
    return graph.constant(array, array.dtype.name)


def single(name, inputs, out, options=None, constants=(), order=None, **how):
    """A model of one operator: inputs, then constants, or in another order; `out` is its shape."""
    graph = Graph()
    numbers = [given(graph, x) for x in inputs] + [constant(graph, x) for x in constants]
    if order is not None:
        numbers = [-1 if i < 0 else numbers[i] for i in order]
    graph.outputs = [graph.op(name, numbers, out, options, **how)]
    return graph


def several(name, inputs, outs, options=None, constants=()):
    """A model of one operator of several outputs, shapes or shapes with types."""
    graph = Graph()
    numbers = [given(graph, x) for x in inputs] + [constant(graph, x) for x in constants]
    made = [graph.tensor(*(x if isinstance(x[0], tuple) else (x,))) for x in outs]
    graph.outputs = list(graph.ops(name, numbers, made, options))
    return graph


BOOLS = ((2, 3), "bool")
S32 = ((2, 3, 4), "int32")


def real_part():
    graph = Graph()
    x = graph.given((2, 4, 8))
    sizes = graph.constant([4, 8], "int32")
    found = graph.op("RFFT2D", [x, sizes], (2, 4, 5), None, "complex64")
    graph.outputs = [graph.op("CAST", [found], (2, 4, 5), {0: 8, 1: 0})]
    return graph


FLOATS = {
    "relu 0 to 1": single("RELU_0_TO_1", [IMAGE], IMAGE),
    "leaky relu": single("LEAKY_RELU", [IMAGE], IMAGE, {0: 0.3}),
    "prelu": single("PRELU", [IMAGE], IMAGE, constants=[drawn(1, 1, 4)]),
    "gelu": single("GELU", [IMAGE], IMAGE, {0: 0}),
    "gelu tanh": single("GELU", [IMAGE], IMAGE, {0: 1}),
    "exp": single("EXP", [IMAGE], IMAGE),
    "sign": single("SIGN", [IMAGE], IMAGE),
    "atan2": single("ATAN2", [IMAGE, IMAGE], IMAGE),
    "add n": single("ADD_N", [IMAGE, IMAGE, IMAGE], IMAGE),
    "floor div": single("FLOOR_DIV", [IMAGE, IMAGE], IMAGE),
    "floor mod": single("FLOOR_MOD", [IMAGE, IMAGE], IMAGE),
    "zeros like": single("ZEROS_LIKE", [IMAGE], IMAGE),
    "cast of complex": real_part(),
    "cast": single("CAST", [IMAGE], IMAGE, {0: 0, 1: 2}, dtype="int32"),
    "bitcast": single("BITCAST", [IMAGE], IMAGE, dtype="int32"),
    "bucketize": single(
        "BUCKETIZE", [IMAGE], IMAGE, {0: Vector((-0.5, 0.0, 0.25), "<f4")}, dtype="int32"
    ),
    "fake quant": single("FAKE_QUANT", [IMAGE], IMAGE, {0: -0.6, 1: 0.7, 2: 8, 3: 0}),
    "l2 normalization": single("L2_NORMALIZATION", [IMAGE], IMAGE),
    "local response": single(
        "LOCAL_RESPONSE_NORMALIZATION", [IMAGE], IMAGE, {0: 2, 1: 1.5, 2: 0.4, 3: 0.75}
    ),
    "l2 pool": single("L2_POOL_2D", [IMAGE], (2, 3, 3, 4), {0: 0, 1: 2, 2: 2, 3: 3, 4: 3}),
    "log softmax": single("LOG_SOFTMAX", [(3, 7)], (3, 7)),
    "sum": single("SUM", [IMAGE], (2, 4), {0: 0}, [[1, 2]]),
    "sum kept": single("SUM", [IMAGE], (2, 1, 5, 1), {0: 1}, [[1, -1]]),
    "mean": single("MEAN", [IMAGE], (2, 1, 1, 4), {0: 1}, [[1, 2]]),
    "reduce max": single("REDUCE_MAX", [IMAGE], (2, 5, 4), {0: 0}, [[1]]),
    "reduce prod": single("REDUCE_PROD", [IMAGE], (2, 5, 4), {0: 0}, [[1]]),
    "reduce any": single("REDUCE_ANY", [BOOLS], (2,), {0: 0}, [[1]], dtype="bool"),
    "reduce all": single("REDUCE_ALL", [BOOLS], (3,), {0: 0}, [[0]], dtype="bool"),
    "cumsum": single("CUMSUM", [IMAGE], IMAGE, {0: 1, 1: 1}, [np.int32(1)]),
    "arg max": single("ARG_MAX", [IMAGE], (2, 6, 5), {0: 2}, [np.int32(3)], dtype="int32"),
    "arg min": single("ARG_MIN", [IMAGE], (2, 5, 4), {0: 4}, [np.int32(1)], dtype="int64"),
    "top k": several("TOPK_V2", [(3, 9)], [(3, 4), ((3, 4), "int32")], None, [np.int32(4)]),
    "one hot": single(
        "ONE_HOT", [((5,), "int32")], (5, 4), {0: -1}, [np.int32(4), np.float32(2), np.float32(-1)]
    ),
    "gather nd": single("GATHER_ND", [(3, 4, 5)], (2, 5), None, [[[1, 2], [0, 3]]]),
    "embedding": single(
        "EMBEDDING_LOOKUP",
        [(3,)],
        (2, 7),
        None,
        order=[1, 2],
        constants=[np.array([3, 1], np.int32), drawn(5, 7)],
    ),
    "scatter nd": single(
        "SCATTER_ND", [(3, 4)], (5, 4), None, order=[1, 0, 2], constants=[[[1], [3], [1]], [5, 4]]
    ),
    "sparse to dense": single(
        "SPARSE_TO_DENSE",
        [(3,)],
        (4, 5),
        {0: 0},
        order=[1, 2, 0, 3],
        constants=[[[0, 1], [2, 2], [3, 4]], [4, 5], np.float32(0.5)],
    ),
    "segment sum": single("SEGMENT_SUM", [(5, 3)], (3, 3), None, [[0, 0, 1, 2, 2]]),
    "unsorted max": single(
        "UNSORTED_SEGMENT_MAX", [(5, 3)], (3, 3), None, [[2, 0, 1, 2, 0], np.int32(3)]
    ),
    "unsorted prod": single(
        "UNSORTED_SEGMENT_PROD", [(5, 3)], (4, 3), None, [[2, 0, 1, 2, 0], np.int32(4)]
    ),
    "dynamic update": single(
        "DYNAMIC_UPDATE_SLICE", [(4, 5), (2, 2), ((2,), "int32")], (4, 5), None
    ),
    "matrix diag": single("MATRIX_DIAG", [(2, 3)], (2, 3, 3)),
    "matrix set diag": single("MATRIX_SET_DIAG", [(2, 3, 4), (2, 3)], (2, 3, 4)),
    "reverse": single("REVERSE_V2", [IMAGE], IMAGE, None, [[1]]),
    "reverse sequence": single(
        "REVERSE_SEQUENCE", [(3, 5, 2)], (3, 5, 2), {0: 1, 1: 0}, [[5, 2, 3]]
    ),
    "mirror pad": single("MIRROR_PAD", [(3, 4)], (6, 7), {0: 0}, [[[1, 2], [2, 1]]]),
    "symmetric pad": single("MIRROR_PAD", [(3, 4)], (6, 7), {0: 1}, [[[1, 2], [2, 1]]]),
    "pad v2": single("PADV2", [(3, 4)], (4, 6), None, [[[1, 0], [0, 2]], np.float32(0.7)]),
    "split v": several(
        "SPLIT_V", [(3, 9)], [(3, 2), (3, 4), (3, 3)], {0: 3}, [[2, 4, -1], np.int32(1)]
    ),
    "unpack": several("UNPACK", [(3, 2)], [(3,), (3,)], {0: 2, 1: 1}),
    "pack": single("PACK", [(3, 2), (3, 2)], (3, 2, 2), {0: 2, 1: 1}),
    "space to depth": single("SPACE_TO_DEPTH", [(1, 4, 6, 3)], (1, 2, 3, 12), {0: 2}),
    "depth to space": single("DEPTH_TO_SPACE", [(1, 2, 3, 12)], (1, 4, 6, 3), {0: 2}),
    "space to batch": single(
        "SPACE_TO_BATCH_ND", [(1, 3, 5, 2)], (6, 2, 2, 2), None, [[2, 3], [[1, 0], [0, 1]]]
    ),
    "batch to space": single(
        "BATCH_TO_SPACE_ND", [(6, 2, 2, 2)], (1, 3, 5, 2), None, [[2, 3], [[1, 0], [0, 1]]]
    ),
    "strided slice": single(
        "STRIDED_SLICE",
        [(4, 5, 6)],
        (1, 4, 5, 3),
        {0: 0, 1: 0, 2: 2, 3: 1, 4: 0},
        [[0, 0, 5], [0, 0, -7], [1, 1, -2]],
    ),
    "slice": single("SLICE", [(4, 5)], (2, 3), None, [[1, 2], [2, -1]]),
    "slice at": single("SLICE", [(4, 5), ((2,), "int32")], (2, 3), None, [[2, 3]]),
    "squeeze": single("SQUEEZE", [(1, 4, 1)], (4,), {}),
    "expand dims": single("EXPAND_DIMS", [(3, 4)], (3, 1, 4), None, [np.int32(1)]),
    "broadcast to": single("BROADCAST_TO", [(3, 1)], (2, 3, 4), None, [[2, 3, 4]]),
    "fill": single("FILL", [()], (2, 3), None, order=[1, 0], constants=[[2, 3]]),
    "select": single("SELECT", [((3,), "bool"), (3, 4), (3, 4)], (3, 4)),
    "select v2": single("SELECT_V2", [((3, 1), "bool"), (1, 4), (3, 4)], (3, 4)),
    "bilinear": single("RESIZE_BILINEAR", [IMAGE], (2, 9, 11, 4), {2: 0, 3: 0}, [[9, 11]]),
    "bilinear aligned": single("RESIZE_BILINEAR", [IMAGE], (2, 9, 11, 4), {2: 1, 3: 0}, [[9, 11]]),
    "bilinear centers": single("RESIZE_BILINEAR", [IMAGE], (2, 3, 11, 4), {2: 0, 3: 1}, [[3, 11]]),
    "nearest": single("RESIZE_NEAREST_NEIGHBOR", [IMAGE], (2, 9, 3, 4), {0: 0, 1: 0}, [[9, 3]]),
    "nearest aligned": single(
        "RESIZE_NEAREST_NEIGHBOR", [IMAGE], (2, 9, 3, 4), {0: 1, 1: 0}, [[9, 3]]
    ),
    "nearest centers": single(
        "RESIZE_NEAREST_NEIGHBOR", [IMAGE], (2, 9, 3, 4), {0: 0, 1: 1}, [[9, 3]]
    ),
    "transpose conv": single(
        "TRANSPOSE_CONV",
        [(1, 3, 4, 2)],
        (1, 6, 8, 5),
        {0: 0, 1: 2, 2: 2},
        order=[1, 2, 0],
        constants=[[1, 6, 8, 5], drawn(5, 3, 3, 2)],
    ),
    "transpose conv valid": single(
        "TRANSPOSE_CONV",
        [(1, 3, 4, 2)],
        (1, 7, 9, 5),
        {0: 1, 1: 2, 2: 2, 3: 1},
        order=[1, 2, 0, 3],
        constants=[[1, 7, 9, 5], drawn(5, 3, 3, 2), drawn(5)],
    ),
    "conv 3d": single(
        "CONV_3D",
        [(1, 5, 6, 7, 2)],
        (1, 3, 3, 4, 3),
        {0: 0, 1: 2, 2: 2, 3: 2, 4: 1},
        [drawn(3, 3, 3, 2, 3), drawn(3)],
    ),
    "conv 3d transpose": single(
        "CONV_3D_TRANSPOSE",
        [(1, 2, 3, 4, 2)],
        (1, 4, 6, 8, 3),
        {0: 0, 1: 2, 2: 2, 3: 2},
        order=[1, 2, 0],
        constants=[[1, 4, 6, 8, 3], drawn(3, 3, 3, 3, 2)],
    ),
    "fully connected of many": single(
        "FULLY_CONNECTED", [(2, 3, 4)], (2, 3, 5), {2: 1}, [drawn(5, 4), drawn(5)]
    ),
    "batch matmul": single("BATCH_MATMUL", [(2, 3, 4), (2, 5, 4)], (2, 3, 5), {0: 0, 1: 1}),
    "rfft2d": single("RFFT2D", [(2, 4, 8)], (2, 4, 5), None, [[4, 8]], dtype="complex64"),
    "integers added": single("ADD", [S32, S32], (2, 3, 4), dtype="int32"),
    "integers divided": single("FLOOR_DIV", [S32, S32], (2, 3, 4), dtype="int32"),
    "bits": single("BITWISE_XOR", [S32, S32], (2, 3, 4), dtype="int32"),
    "shifted": single("RIGHT_SHIFT", [S32, S32], (2, 3, 4), dtype="int32"),
    "suppression 4": several(
        "NON_MAX_SUPPRESSION_V4",
        [(12, 4), (12,)],
        [((6,), "int32"), ((), "int32")],
        None,
        [np.int32(6), np.float32(0.3), np.float32(-0.2)],
    ),
    "suppression 5": several(
        "NON_MAX_SUPPRESSION_V5",
        [(12, 4), (12,)],
        [((6,), "int32"), (6,), ((), "int32")],
        None,
        [np.int32(6), np.float32(0.4), np.float32(0.1), np.float32(0.5)],
    ),
    "dilate": single("DILATE", [(2, 3)], (3, 7), {}, [[2, 3], np.float32(0.5)]),
}


# -- weights of 8 bits and floats ----------------------------------------------------------------


def hybrid_layer(with_zero, weights=(6, 16)):
    graph = Graph()
    x = graph.given((3, weights[1]))
    w = graph.constant(whole(*weights, low=-127), "int8", 0.01, 0)
    bias = graph.constant(drawn(weights[0]))
    options = {0: 0, 3: int(with_zero)}
    graph.outputs = [graph.op("FULLY_CONNECTED", [x, w, bias], (3, weights[0]), options)]
    return graph


def hybrid_convolution(name, out, options, weights, axis):
    graph = Graph()
    x = graph.given(IMAGE)
    scales = np.linspace(0.002, 0.02, out[-1])
    w = graph.constant(whole(*weights, low=-127), "int8", scales, np.zeros(out[-1], int), axis)
    bias = graph.constant(drawn(out[-1]))
    graph.outputs = [graph.op(name, [x, w, bias], out, options)]
    return graph


HYBRID = {
    "layer": hybrid_layer(False),
    "layer with zero points": hybrid_layer(True),
    "convolution": hybrid_convolution("CONV_2D", (2, 3, 3, 7), {0: 0, 1: 2, 2: 2}, (7, 3, 3, 4), 0),
    "depthwise": hybrid_convolution(
        "DEPTHWISE_CONV_2D", (2, 6, 5, 8), {0: 0, 1: 1, 2: 1, 3: 2}, (1, 3, 3, 8), 3
    ),
}


# -- recurrent layers ------------------------------------------------------------------------------


def svdf(rank=2, units=3, memory=4):
    graph = Graph()
    x = graph.given((2, 5))
    filters = rank * units
    features, time = graph.constant(drawn(filters, 5)), graph.constant(drawn(filters, memory))
    bias, state = graph.constant(drawn(units)), graph.state((2, filters * memory))
    graph.outputs = [
        graph.op("SVDF", [x, features, time, bias, state], (2, units), {0: rank, 1: 1})
    ]
    return graph


def rnn():
    graph = Graph()
    x = graph.given((2, 5))
    weights = [graph.constant(drawn(*s, seed=i)) for i, s in enumerate([(3, 5), (3, 3), (3,)])]
    inputs = [x, *weights, graph.state((2, 3))]
    graph.outputs = [graph.op("RNN", inputs, (2, 3), {0: 4})]
    return graph


def sequence_rnn(name="UNIDIRECTIONAL_SEQUENCE_RNN"):
    graph = Graph()
    x = graph.given((2, 6, 5))
    weights = [graph.constant(drawn(*s, seed=i)) for i, s in enumerate([(3, 5), (3, 3), (3,)])]
    inputs = [x, *weights, graph.state((2, 3))]
    graph.outputs = [graph.op(name, inputs, (2, 6, 3), {0: 0, 1: 4})]
    return graph


def lstm(coupled=False, peepholes=False, projected=0, steps=6, dtype="float32", normalized=False):
    graph = Graph()
    cells, width = 4, 5
    out = projected or cells

    def weights(*sizes, seed):
        if dtype == "float32" or len(sizes) == 1:
            return graph.constant(drawn(*sizes, seed=seed))
        return graph.constant(whole(*sizes, seed=seed, low=-127), dtype, 0.008, 0)

    x = graph.given((2, steps, width))
    inputs = [x]
    inputs += [-1 if coupled and i == 0 else weights(cells, width, seed=i) for i in range(4)]
    inputs += [-1 if coupled and i == 0 else weights(cells, out, seed=9 + i) for i in range(4)]
    for i in range(3):
        inputs.append(weights(cells, seed=20 + i) if peepholes and (i or not coupled) else -1)
    inputs += [-1 if coupled and i == 0 else weights(cells, seed=30 + i) for i in range(4)]
    inputs += [weights(out, cells, seed=40) if projected else -1, -1]
    inputs += [graph.state((2, out)), graph.state((2, cells))]
    if normalized:
        inputs += [-1 if coupled and i == 0 else weights(cells, seed=50 + i) for i in range(4)]
    options = {0: 4, 1: 1.2, 2: 0.5 if projected else 0.0}
    made = graph.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (2, steps, out), options)
    graph.outputs = [made]
    return graph


def bidirectional_lstm(merged=True):
    """LiteRT leaves merged results of further entries of a batch at 0: there is one here."""
    graph = Graph()
    cells, width, steps = 3, 4, 5
    batch = 1 if merged else 2
    inputs = [graph.given((batch, steps, width))]
    for way in range(2):
        seed = 100 * way
        inputs += [graph.constant(drawn(cells, width, seed=seed + i)) for i in range(4)]
        inputs += [graph.constant(drawn(cells, cells, seed=seed + 9 + i)) for i in range(4)]
        inputs += [-1] * 3
        inputs += [graph.constant(drawn(cells, seed=seed + 30 + i)) for i in range(4)]
        inputs += [-1, -1]
    inputs += [graph.state((batch, cells)) for _ in range(4)]
    inputs += [-1] * 9
    shapes = [(1, steps, 2 * cells)] if merged else [(2, steps, cells)] * 2
    made = [graph.tensor(x) for x in shapes]
    options = {0: 4, 3: int(merged), 4: 0}
    graph.outputs = list(graph.ops("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, made, options))
    return graph


RECURRENT = {
    "svdf": svdf(),
    "rnn": rnn(),
    "sequence rnn": sequence_rnn(),
    "lstm": lstm(),
    "coupled lstm": lstm(coupled=True),
    "lstm with peepholes": lstm(peepholes=True),
    "lstm projected": lstm(projected=3),
    "lstm normalized": lstm(normalized=True),
    "lstm of 8-bit weights": lstm(dtype="int8"),
    "lstm both ways": bidirectional_lstm(),
    "lstm both ways apart": bidirectional_lstm(False),
}


# -- quantized ----------------------------------------------------------------------------------

S8, U8, S16 = ("int8", 0.05, 3), ("uint8", 0.04, 120), ("int16", 0.0003, 0)


def unary(name, kind, made, options=None, shape=(3, 40)):
    return single(
        name, [(shape, *kind)], shape, options, dtype=made[0], scale=made[1], zero=made[2]
    )


def reduced(name, kind, made, axes, out, keep, shape=IMAGE):
    how = {"dtype": made[0], "scale": made[1], "zero": made[2]}
    return single(name, [(shape, *kind)], out, {0: keep}, [axes], **how)


def paired(name, kind, other, made, options=None, shapes=((3, 8), (3, 8), (3, 8))):
    how = {"dtype": made[0], "scale": made[1], "zero": made[2]}
    inputs = [(shapes[0], *kind), (shapes[1], *other)]
    return single(name, inputs, shapes[2], options, **how)


def transposed(kind, bias):
    graph = Graph()
    sizes = graph.constant([1, 6, 8, 5], "int32")
    scales = np.linspace(0.002, 0.02, 5)
    w = graph.constant(whole(5, 3, 3, 2, low=-127), "int8", scales, np.zeros(5, int), 0)
    x = graph.given((1, 3, 4, 2), *kind)
    b = graph.constant(
        whole(5, low=-400, high=400, dtype=bias), bias, scales * kind[1], np.zeros(5, int)
    )
    made = (kind[0], kind[1] * 1.7, kind[2] and kind[2] - 5)
    out = graph.op("TRANSPOSE_CONV", [sizes, w, x, b], (1, 6, 8, 5), {0: 0, 1: 2, 2: 2}, *made)
    graph.outputs = [out]
    return graph


def quantized_svdf(rank=2, units=5, memory=7, features=9, activation=1):
    graph = Graph()
    x = graph.given((2, features), "int8", 0.05, 7)
    filters = rank * units
    weights = graph.constant(whole(filters, features, low=-127), "int8", 0.01, 0)
    time = graph.constant(
        whole(filters, memory, low=-9000, high=9000, dtype="int16"), "int16", 0.0001, 0
    )
    bias = graph.constant(
        whole(units, low=-90000, high=90000, dtype="int32"), "int32", 0.0001 * 0.0004, 0
    )
    state = graph.state((2, filters * memory), "int16", 0.0004, 0)
    inputs, options = [x, weights, time, bias, state], {0: rank, 1: activation}
    graph.outputs = [graph.op("SVDF", inputs, (2, units), options, "int8", 0.02, -11)]
    return graph


INTEGERS = {
    "svdf": quantized_svdf(),
    "svdf of more": quantized_svdf(1, 4, 10, 20),
    "abs": unary("ABS", S8, ("int8", 0.07, -20)),
    "exp": unary("EXP", ("int8", 0.02, 3), ("int8", 0.06, -128)),
    "exp 16": unary("EXP", ("int16", 0.00005, 0), ("int16", 0.0002, 0)),
    "elu": unary("ELU", S8, ("int8", 0.06, -90)),
    "log": unary("LOG", ("int8", 0.02, -128), ("int8", 0.05, 3)),
    "rsqrt": unary("RSQRT", ("int8", 0.03, -128), ("int8", 0.05, -128)),
    "gelu": unary("GELU", S8, ("int8", 0.03, -100), {0: 0}),
    "gelu tanh": unary("GELU", S8, ("int8", 0.03, -100), {0: 1}),
    "hard swish": unary("HARD_SWISH", S8, ("int8", 0.03, -116)),
    "hard swish unsigned": unary("HARD_SWISH", U8, ("uint8", 0.03, 12)),
    "leaky relu": unary("LEAKY_RELU", S8, ("int8", 0.04, -7), {0: 0.2}),
    "leaky relu 16": unary("LEAKY_RELU", S16, ("int16", 0.0002, 0), {0: 0.2}),
    "logistic 16": unary("LOGISTIC", ("int16", 0.0005, 0), ("int16", 1 / 32768, 0)),
    "logistic 16 of a power": unary("LOGISTIC", ("int16", 1 / 4096, 0), ("int16", 1 / 32768, 0)),
    "tanh 16": unary("TANH", ("int16", 0.0003, 0), ("int16", 1 / 32768, 0)),
    "tanh 16 of a power": unary("TANH", ("int16", 1 / 4096, 0), ("int16", 1 / 32768, 0)),
    "softmax 16": unary("SOFTMAX", ("int16", 0.0007, 0), ("int16", 1 / 32768, 0), {0: 1.0}),
    "softmax 8 to 16": unary("SOFTMAX", S8, ("int16", 1 / 65536, -32768), {0: 1.0}),
    "log softmax": unary("LOG_SOFTMAX", S8, ("int8", 16 / 256, 127)),
    "mean of images": reduced("MEAN", S8, ("int8", 0.03, 5), [1, 2], (2, 1, 1, 4), 1),
    "mean": reduced("MEAN", S8, ("int8", 0.03, 5), [1], (2, 5, 4), 0),
    "mean in one scale": reduced("MEAN", S8, S8, [2, 3], (2, 6), 0),
    "mean of 16": reduced("MEAN", S16, ("int16", 0.0002, 0), [1, 2], (2, 1, 1, 4), 1),
    "mean of unsigned": reduced("MEAN", U8, ("uint8", 0.03, 100), [1, 2], (2, 1, 1, 4), 1),
    "mean of unsigned rows": reduced("MEAN", U8, ("uint8", 0.03, 100), [3], (2, 6, 5), 0),
    "sum": reduced("SUM", S8, ("int8", 0.5, 5), [1], (2, 5, 4), 0),
    "reduce max": reduced("REDUCE_MAX", S8, S8, [1], (2, 5, 4), 0),
    "maximum": paired("MAXIMUM", S8, S8, S8),
    "squared difference": paired("SQUARED_DIFFERENCE", S8, ("int8", 0.03, -4), ("int8", 0.2, -100)),
    "prelu": single(
        "PRELU",
        [((2, 3, 8), *S8)],
        (2, 3, 8),
        None,
        [(whole(1, 1, 8), 0.004, 3)],
        dtype="int8",
        scale=0.04,
        zero=-9,
    ),
    "less": single("LESS", [((3, 8), *S8), ((3, 8), "int8", 0.03, -4)], (3, 8), dtype="bool"),
    "batch matmul": paired(
        "BATCH_MATMUL",
        S8,
        ("int8", 0.02, -6),
        ("int8", 0.06, 7),
        {},
        ((2, 3, 8), (2, 8, 5), (2, 3, 5)),
    ),
    "quotient unsigned": paired("DIV", U8, ("uint8", 0.03, 0), ("uint8", 0.004, 90)),
    "quotient unsigned, active": paired(
        "DIV", U8, ("uint8", 0.05, 255), ("uint8", 0.003, 9), {0: 1}
    ),
    "length": unary("L2_NORMALIZATION", S8, ("int8", 1 / 128, 0)),
    "length of many": unary("L2_NORMALIZATION", S8, ("int8", 1 / 128, 0), shape=(2, 4000)),
    "length of few": unary("L2_NORMALIZATION", S8, ("int8", 1 / 128, 0), shape=(40, 1)),
    "batch matmul 16": paired(
        "BATCH_MATMUL",
        S16,
        ("int16", 0.0002, 0),
        ("int16", 0.001, 0),
        {},
        ((2, 3, 8), (2, 8, 5), (2, 3, 5)),
    ),
    "concatenation unsigned": paired(
        "CONCATENATION",
        U8,
        ("uint8", 0.07, 90),
        ("uint8", 0.06, 100),
        {0: 1},
        ((3, 8), (3, 8), (3, 16)),
    ),
    "bilinear": single(
        "RESIZE_BILINEAR",
        [(IMAGE, *S8)],
        (2, 9, 11, 4),
        {2: 0, 3: 1},
        [[9, 11]],
        dtype="int8",
        scale=0.05,
        zero=3,
    ),
    "bilinear 16": single(
        "RESIZE_BILINEAR",
        [(IMAGE, *S16)],
        (2, 9, 3, 4),
        {2: 1, 3: 0},
        [[9, 3]],
        dtype="int16",
        scale=0.0003,
        zero=0,
    ),
    "bilinear unsigned": single(
        "RESIZE_BILINEAR",
        [(IMAGE, *U8)],
        (2, 9, 11, 4),
        {2: 0, 3: 0},
        [[9, 11]],
        dtype="uint8",
        scale=0.04,
        zero=120,
    ),
    "space to batch": single(
        "SPACE_TO_BATCH_ND",
        [((1, 3, 5, 2), *S8)],
        (6, 2, 2, 2),
        None,
        [[2, 3], [[1, 0], [0, 1]]],
        dtype="int8",
        scale=0.05,
        zero=3,
    ),
    "transposed": transposed(S8, "int32"),
    "transposed 16": transposed(S16, "int64"),
}


# -- StableHLO ------------------------------------------------------------------------------------


def longs(*values):
    return Vector(values, "<i8")


def reducing():
    graph, body = Graph(), Graph()
    x = graph.given((3, 5))
    start = graph.constant(np.float32(0.25))
    body.outputs = [body.op("STABLEHLO_MAXIMUM", [body.given(()), body.given(())], ())]
    graph.outputs = [graph.op("STABLEHLO_REDUCE", [x, start], (5,), {0: longs(0), 1: 1})]
    return [graph, body]


def windows():
    graph, body = Graph(), Graph()
    x = graph.given((4, 6))
    start = graph.constant(np.float32(0))
    body.outputs = [body.op("STABLEHLO_ADD", [body.given(()), body.given(())], ())]
    options = {0: longs(2, 3), 1: longs(2, 1), 4: longs(0, 0, 1, 1), 5: 1}
    graph.outputs = [graph.op("STABLEHLO_REDUCE_WINDOW", [x, start], (2, 6), options)]
    return [graph, body]


STABLEHLO = {
    "add": [single("STABLEHLO_ADD", [IMAGE, IMAGE], IMAGE)],
    "tanh": [single("STABLEHLO_TANH", [IMAGE], IMAGE)],
    "transpose": [single("STABLEHLO_TRANSPOSE", [(2, 3, 4)], (4, 2, 3), {0: longs(2, 0, 1)})],
    "compare": [single("STABLEHLO_COMPARE", [(3, 4), (3, 4)], (3, 4), {0: 3}, dtype="bool")],
    "negate": [single("STABLEHLO_NEGATE", [IMAGE], IMAGE)],
    "slice": [
        single(
            "STABLEHLO_SLICE", [(5, 6)], (2, 3), {0: longs(1, 0), 1: longs(5, 6), 2: longs(2, 2)}
        )
    ],
    "dot": [
        single(
            "STABLEHLO_DOT_GENERAL",
            [(2, 3, 4), (2, 4, 5)],
            (2, 3, 5),
            {0: longs(0), 1: longs(0), 2: longs(2), 3: longs(1)},
        )
    ],
    "pad": [
        single(
            "STABLEHLO_PAD",
            [(3, 4)],
            (6, 9),
            {0: longs(1, 0), 1: longs(0, 2), 2: longs(1, 1)},
            [np.float32(0.5)],
        )
    ],
    "reduce": reducing(),
    "reduce window": windows(),
}
