"""Records graphs of TensorFlow, with inputs and what it gives for them: `python record.py FOLDER`.

FOLDER/graphs.npz.xz has, for each graph, its GraphDef as bytes, inputs and outputs;
FOLDER/saved_state is a SavedModel of random numbers, a table and updates of variables, with three
calls in saved_state.npz. The tests read them where TensorFlow is not installed.
"""

import io
import lzma
import os
import shutil
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

draw = np.random.default_rng(3)
GRAPHS = {}


def uniform(*sizes):
    return draw.uniform(-1, 1, sizes).astype(np.float32)


def graph(**inputs):
    """Let a function of TensorFlow 2 be recorded, for inputs by name."""

    def keep(function):
        GRAPHS[function.__name__] = lambda: traced(function, inputs)
        return function

    return keep


def first(**inputs):
    """Let a function that builds a graph of TensorFlow 1 be recorded."""

    def keep(function):
        GRAPHS[function.__name__] = lambda: built(function, inputs)
        return function

    return keep


def traced(function, inputs):
    spec = [tf.TensorSpec(x.shape, x.dtype, name=name) for name, x in inputs.items()]
    made = tf.function(function).get_concrete_function(*spec)
    names = list(inputs)
    outputs = tf.nest.flatten(made(*[tf.constant(x) for x in inputs.values()]))
    values = [x.name for x in made.outputs]
    given = [x.name.partition(":")[0] for x in made.inputs]
    assert given == names, given
    return made.graph.as_graph_def(), values, inputs, [x.numpy() for x in outputs]


def built(function, inputs):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as own:
        v1.disable_control_flow_v2()
        given = {name: v1.placeholder(x.dtype, x.shape, name) for name, x in inputs.items()}
        outputs = function(**given)
        with v1.Session() as session:
            found = session.run(outputs, {given[name]: x for name, x in inputs.items()})
        v1.enable_control_flow_v2()
        return own.as_graph_def(), [x.name for x in outputs], inputs, found


X = uniform(5, 3)
S = np.array([3, 17], np.int32)


@graph(x=X)
def map_and_scan(x):
    pairs = tf.map_fn(
        lambda r: (r[0] > 0, tf.cast(r[1] * 10, tf.int32)), x, fn_output_signature=(bool, tf.int32)
    )
    return [
        tf.map_fn(lambda r: tf.reduce_sum(r * r) + r, x),
        *pairs,
        tf.scan(lambda a, r: a * 0.5 + r, x, reverse=True),
        tf.foldl(lambda a, r: a * 0.5 + r, x),
    ]


@graph(x=X)
def lists(x):
    grown = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
    for i in tf.range(4):
        grown = grown.write(2 * i + 1, x[i] * 2.0)
    held = tf.TensorArray(tf.float32, size=5).unstack(x)
    total = tf.zeros(3)
    for i in tf.range(5):
        total = total + held.read(i) * tf.cast(i, tf.float32)
    pair = tf.TensorArray(tf.float32, size=2).write(0, x[0]).write(1, x[1])
    raw = tf.raw_ops
    split = raw.TensorListSplit(tensor=x[:4], element_shape=[-1, 3], lengths=[2, 2])
    kept = raw.TensorListScatterV2(tensor=x[:2], indices=[2, 0], element_shape=[3], num_elements=4)
    older = raw.TensorListScatter(tensor=x[:2], indices=[1, 0], element_shape=[3])
    wide = raw.TensorListResize(input_handle=older, size=3)
    stack = raw.TensorListStack
    both = raw.TensorListConcat(input_handle=split, element_dtype=tf.float32)
    shape = raw.TensorListElementShape(input_handle=older, shape_type=tf.int32)
    return [
        grown.stack(),
        total,
        grown.gather([3, 1]),
        pair.concat(),
        both.tensor,
        both.lengths,
        shape,
        *[
            stack(input_handle=y, element_shape=[3], element_dtype=tf.float32)
            for y in (kept, older, wide)
        ],
    ]


@graph(x=uniform(3, 4))
def gradient_of_a_loop(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        state = x
        for _ in tf.range(5):
            state = tf.tanh(state * 1.1 + x)
        loss = tf.reduce_sum(state)
    return [tape.gradient(loss, x)]


@graph(seed=S)
def stateless_numbers(seed):
    r = tf.random
    found = []
    for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16):
        kinds = (r.stateless_uniform, r.stateless_normal, r.stateless_truncated_normal)
        found += [tf.cast(f((3, 7), seed, dtype=dtype), tf.float64) for f in kinds]
    found += [
        r.stateless_uniform((9,), seed, -5, 17, tf.int32),
        r.stateless_uniform((9,), seed, 0, 1 << 40, tf.int64),
        r.stateless_uniform((9,), seed, None, None, tf.int32),
        r.stateless_uniform((9,), seed, None, None, tf.int64),
        r.split(seed, 3),
        r.fold_in(seed, 5),
    ]
    raw = tf.raw_ops
    found += [raw.StatelessRandomUniform(shape=[5], seed=seed)]
    found += [raw.StatelessRandomNormal(shape=[5], seed=seed)]
    found += [raw.StatelessTruncatedNormal(shape=[5], seed=seed)]
    found += [raw.StatelessRandomUniformInt(shape=[5], seed=seed, minval=2, maxval=9)]
    found += [raw.StatelessRandomUniformFullInt(shape=[5], seed=seed, dtype=tf.int32)]
    found += raw.StatelessRandomGetKeyCounter(seed=seed)
    found += raw.StatelessRandomGetKeyCounterAlg(seed=seed)
    return [*found, raw.StatelessRandomGetAlg()]


@graph(x=uniform(4, 4), i=np.array([[0, 1], [2, 3], [3, 0]], np.int32))
def indexed(x, i):
    rows, raw = x[0, :3], tf.raw_ops
    m = tf.math
    unsorted = [
        m.unsorted_segment_sum,
        m.unsorted_segment_max,
        m.unsorted_segment_min,
        m.unsorted_segment_prod,
    ]
    ordered = [m.segment_sum, m.segment_mean, m.segment_prod, m.segment_max, m.segment_min]
    scatters = [
        tf.tensor_scatter_nd_update,
        tf.tensor_scatter_nd_add,
        tf.tensor_scatter_nd_sub,
        tf.tensor_scatter_nd_max,
        tf.tensor_scatter_nd_min,
    ]
    raised = tf.sort(x[0])
    return [
        *[f(x, [0, 2, 2, 0], 4) for f in unsorted],
        *[f(x, [0, 0, 2, 2]) for f in ordered],
        *[f(x, i, rows) for f in scatters],
        raw.Bucketize(input=x, boundaries=[-0.5, 0.0, 0.5]),
        tf.searchsorted(raised, x[1]),
        tf.searchsorted(raised, x[1], side="right"),
        m.in_top_k([0, 1, 2, 3], x, 2),
        raw.InTopK(predictions=x, targets=[0, 1, 2, 3], k=1),
        raw.NthElement(input=x, n=1),
        raw.NthElement(input=x, n=1, reverse=True),
        tf.dynamic_stitch([[0, 2], [1, 3]], [x[:2], x[2:]]),
        raw.ParallelDynamicStitch(indices=[[3], [1, 0, 2]], data=[x[:1], x[1:]]),
        raw.DenseBincount(input=i[:, 0], size=4, weights=tf.constant([], tf.int32)),
        raw.Bincount(arr=i[:, 0], size=4, weights=rows),
        tf.unravel_index(i[:, 0] + 5, [3, 4]),
        tf.histogram_fixed_width(x, [-1.0, 1.0], 5),
        tf.roll(x, [1, -1], [0, 1]),
        tf.reverse_sequence(x, [2, 3, 1, 4], 1),
        m.cumprod(x, 1, exclusive=True),
        m.cumprod(x, 0, reverse=True),
        raw.BroadcastArgs(s0=[2, 1], s1=[3]),
        tf.bitcast(x, tf.int32),
        tf.bitcast(tf.constant([1, 258]), tf.uint8),
    ]


@graph(x=uniform(2, 4, 6))
def matrices(x):
    raw, square = tf.raw_ops, x[:, :, :4]
    positive = square @ tf.transpose(square, [0, 2, 1]) + 4 * tf.eye(4)
    lower = tf.linalg.cholesky(positive)
    one = raw.MatrixDiag(diagonal=x[0])
    zero = tf.constant(0.0)
    return [
        tf.linalg.band_part(x, 1, 0),
        tf.linalg.band_part(x, -1, 1),
        tf.linalg.diag(x[0], k=-1),
        one,
        raw.MatrixDiagPart(input=one),
        raw.MatrixSetDiag(input=x, diagonal=x[:, 0, :4]),
        raw.MatrixDiagV2(
            diagonal=x[0], k=1, num_rows=-1, num_cols=-1, padding_value=tf.constant(2.0)
        ),
        raw.MatrixDiagPartV2(input=x, k=1, padding_value=zero),
        raw.MatrixSetDiagV2(input=x, diagonal=x[:, 0, :4], k=2),
        tf.linalg.diag_part(x, k=-2),
        tf.linalg.set_diag(x, x[:, 0, :3], k=-1),
        lower,
        tf.linalg.triangular_solve(lower, x),
        tf.linalg.triangular_solve(lower, x, adjoint=True),
        tf.linalg.cross(x[:, :, :3], x[:, :, 3:]),
    ]


@graph(x=uniform(2, 8))
def transforms(x):
    s = tf.signal
    c = tf.complex(x, x[:, ::-1])
    image, raw = tf.reshape(c, [2, 2, 2, 2]), tf.raw_ops
    real = tf.reshape(x, [2, 2, 2, 2])
    found = [
        s.fft(c),
        s.ifft(c),
        s.fft2d(image),
        s.ifft2d(image),
        s.fft3d(image),
        s.ifft3d(image),
        s.rfft(x, [6]),
        s.rfft2d(real),
        s.rfft3d(real),
        tf.math.conj(c),
    ]
    back = [
        s.irfft(s.rfft(x)),
        s.irfft2d(s.rfft2d(real)),
        s.irfft3d(s.rfft3d(real)),
        tf.abs(c),
        tf.math.angle(c),
    ]
    parts = [f(y) for y in found for f in (tf.math.real, tf.math.imag)]
    return [*parts, *back, raw.ComplexAbs(x=c)]


@graph(x=np.abs(uniform(3, 4)), y=np.array([[0, 1, 2, 0]] * 3, np.float32))
def elements(x, y):
    m, raw = tf.math, tf.raw_ops
    q = tf.quantization
    return [
        m.xlogy(y, x),
        m.xdivy(y, x),
        m.xlog1py(y, x),
        m.multiply_no_nan(x, y),
        raw.ApproximateEqual(x=x, y=x + 1e-6),
        raw.PopulationCount(x=tf.cast(x * 100, tf.int32)),
        q.fake_quant_with_min_max_args(x, -1, 2),
        q.fake_quant_with_min_max_vars(x, -0.3, 0.7),
        q.fake_quant_with_min_max_vars_per_channel(x, [-1.0] * 4, [0.5] * 4, 4, True),
    ]


@graph(x=uniform(2, 6, 7, 3))
def images(x):
    methods = ("bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic")
    found = [tf.image.resize(x, (9, 5), method=y) for y in methods]
    found += [tf.image.resize(x, (3, 11), method=y, antialias=True) for y in methods]
    found += [tf.compat.v1.image.resize_bicubic(x, (4, 9), align_corners=y) for y in (False, True)]
    found += [tf.nn.local_response_normalization(x, 1, alpha=0.3, beta=0.7)]
    for padding in ("VALID", "SAME"):
        sizes = [[1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1]]
        found.append(tf.image.extract_patches(x, *sizes, padding))
    blocks = tf.space_to_batch_nd(x, [2, 3], [[0, 0], [1, 1]])
    return [*found, blocks, tf.batch_to_space(blocks, [2, 3], [[1, 0], [0, 2]])]


@graph(x=uniform(2, 5, 6, 4), k=uniform(3, 2, 4, 2), d=uniform(3, 2, 4, 2))
def gradients_of_networks(x, k, d):
    found = []
    for stride, padding in ((1, "SAME"), (2, "VALID"), (2, "SAME")):
        with tf.GradientTape() as tape:
            tape.watch([x, k, d])
            y = tf.nn.conv2d(x, k, stride, padding) * 1.5
            z = tf.nn.depthwise_conv2d(x, d, [1, stride, stride, 1], padding)
            p = tf.nn.max_pool2d(x, 3, stride, padding) ** 2
            q = tf.nn.avg_pool2d(x, 2, stride, padding) ** 2
            loss = sum([tf.reduce_sum(a * a) for a in (y, z, p, q)])
        found += tape.gradient(loss, [x, k, d])
    with tf.GradientTape() as tape:
        tape.watch(x)
        classes = tf.nn.sparse_softmax_cross_entropy_with_logits([1, 3], x[:, 0, 0])
        padded = tf.pad(x, [[0, 0], [1, 2], [2, 0], [0, 0]], "REFLECT")
        padded = tf.pad(padded, [[0, 1], [0, 0], [0, 0], [0, 0]], "SYMMETRIC")
        y = tf.nn.leaky_relu(padded[:, 1:4:2, ..., 0, tf.newaxis], 0.3)
        y = tf.reduce_sum(tf.nn.selu(padded) ** 2) + tf.reduce_sum(y**2)
        loss = tf.reduce_sum(classes) + y
    raw = tf.raw_ops
    scale, shift = k[0, 0, :, 0], k[0, 0, :, 1]
    for is_training in (True, False):
        normal = raw.FusedBatchNormV3(
            x=x,
            scale=scale,
            offset=shift,
            mean=scale,
            variance=scale * scale + 1.0,
            is_training=is_training,
        )
        kept = [normal[3], normal[4]] if is_training else [scale, scale * scale + 1.0]
        given = {
            "y_backprop": x * x,
            "x": x,
            "scale": scale,
            "reserve_space_1": kept[0],
            "reserve_space_2": kept[1],
            "is_training": is_training,
        }
        found += raw.FusedBatchNormGradV3(**given, reserve_space_3=normal[5])[:3]
        if is_training:
            found += raw.FusedBatchNormGradV2(**given)[:3]
            found += raw.FusedBatchNormGrad(**given)[:3]
    return [*found, tape.gradient(loss, x)]


@graph(x=uniform(1, 4, 5, 6, 2), k=uniform(2, 3, 2, 2, 3))
def three_dimensions(x, k):
    with tf.GradientTape() as tape:
        tape.watch([x, k])
        y = tf.nn.conv3d(x, k, [1, 2, 1, 2, 1], "SAME")
        p = tf.nn.max_pool3d(x, 2, 2, "SAME") ** 2
        q = tf.nn.avg_pool3d(x, 2, 1, "VALID") ** 2
        loss = sum([tf.reduce_sum(a * a) for a in (y, p, q)])
    return [y, p, q, *tape.gradient(loss, [x, k])]


SQUARE = uniform(2, 4, 4)
BOXES = np.array([[0, 0, 1, 1], [0, 0, 1, 1.1], [0, 2, 1, 3], [5, 5, 6, 6]], np.float32)


@graph(x=SQUARE, y=uniform(2, 5, 3), z=uniform(2, 4, 3))
def decompositions(x, y, z):
    raw = tf.raw_ops
    both = tf.matmul(x, x, transpose_b=True)
    values, vectors = tf.linalg.eigh(both)
    s, u, v = tf.linalg.svd(y)
    wide = tf.linalg.svd(y, full_matrices=True)[1]
    q, r = tf.linalg.qr(y)
    whole = tf.linalg.qr(y, full_matrices=True)[0]
    lu, order = tf.linalg.lu(x)
    bands = tf.abs(x[0, :3]) + np.array([[0], [3], [0]], np.float32)
    return [
        *[values, tf.matmul(vectors * values[:, None, :], vectors, transpose_b=True)],
        *[s, tf.matmul(u * s[:, None, :], v, transpose_b=True)],
        *[tf.matmul(a, a, transpose_a=True) for a in (wide, whole)],
        *[q, r, lu, order],
        tf.linalg.lstsq(y, y[..., :2] * 2.0, fast=False),
        tf.linalg.tridiagonal_solve(bands, z[0], diagonals_format="compact"),
        tf.linalg.tridiagonal_matmul(bands, z[0], diagonals_format="compact"),
        raw.BandedTriangularSolve(matrix=tf.abs(x[0, :2]) + 1.0, rhs=z[0]),
        raw.BandedTriangularSolve(matrix=tf.abs(x[0, :2]) + 1.0, rhs=z[0], lower=False),
        tf.linalg.tensor_diag(x[0]),
        tf.linalg.tensor_diag_part(tf.linalg.tensor_diag(x[0])),
    ]


@graph(b=BOXES, s=np.array([0.9, 0.8, 0.7, 0.6], np.float32), c=uniform(1, 4, 3))
def suppressions(b, s, c):
    raw = tf.raw_ops
    given = {"boxes": b, "scores": s, "max_output_size": 3, "iou_threshold": 0.5}
    given |= {"score_threshold": 0.1, "pad_to_max_output_size": True}
    small = (b / 7.0)[None, :, None, :]
    return [
        *raw.NonMaxSuppressionV4(**given),
        *raw.NonMaxSuppressionV5(**given, soft_nms_sigma=0.5),
        *tf.image.combined_non_max_suppression(small, c, 2, 5, 0.5, 0.0),
        *tf.image.combined_non_max_suppression(tf.tile(small, [1, 1, 3, 1]), c, 2, 5),
    ]


@graph(x=np.array([[3, 0, 3, 5], [1, 1, 2, 0]], np.int32), w=uniform(2, 4))
def counts(x, w):
    count = tf.math.bincount
    tf.print("counted", x)
    tf.debugging.assert_less(x, 6)
    return [
        count(x[0], minlength=6, maxlength=6),
        count(x[0], w[0], minlength=6, maxlength=6),
        count(x, minlength=6, maxlength=6, axis=-1),
        count(x, minlength=6, maxlength=6, axis=-1, binary_output=True),
        *tf.dynamic_partition(w, [1, 0], 3),
        tf.boolean_mask(w, [False, True]),
        tf.math.confusion_matrix(x[0], x[1], 6),
    ]


@graph(x=uniform(4, 3), y=uniform(2))
def sparse_arrays(x, y):
    kept = tf.SparseTensor([[0, 1], [2, 2]], y, [3, 4])
    chosen, parts = [0, 2, 3], [0, 0, 1]
    s = tf.sparse
    return [
        s.to_dense(kept, default_value=0.5),
        s.sparse_dense_matmul(kept, x),
        s.sparse_dense_matmul(kept, x[:3], adjoint_a=True),
        *[f(x, chosen, parts) for f in (s.segment_sum, s.segment_mean, s.segment_sqrt_n)],
        s.segment_mean(x, chosen, parts, num_segments=4),
    ]


@graph(x=uniform(3, 4))
def special_functions(x):
    m, size = tf.math, tf.abs(x)
    ones = tf.ones_like(x)
    return [
        *[m.lgamma(x * 9 + 0.1), m.lgamma(size), m.digamma(size + 0.1), m.digamma(x * 5.3)],
        *[m.erfinv(x), m.ndtri(size), m.polygamma(ones * 2, size + 0.3), m.zeta(size + 1.5, size)],
        *[m.nextafter(x, x + 1), m.nextafter(x, x - 1), m.nextafter(x * 0, x)],
        m.cumulative_logsumexp(x * 30, 1),
        m.cumulative_logsumexp(x, 0, exclusive=True, reverse=True),
        *m.approx_max_k(x, 2),
    ]


@graph(x=uniform(2, 6, 7, 3), at=np.array([0, 1, 2, 0], np.int32))
def moved_images(x, at):
    raw, q = tf.raw_ops, tf.quantization.quantize_and_dequantize_v2
    turn = [[0.9, 0.3, 0.4, -0.2, 1.1, 0.5, 0.01, -0.02]]
    found = [
        raw.ImageProjectiveTransformV3(
            images=x,
            transforms=turn,
            output_shape=[5, 8],
            interpolation=how,
            fill_mode=fill,
            fill_value=0.25,
        )
        for how in ("BILINEAR", "NEAREST")
        for fill in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
    ]
    sizes = {"ksizes": [1, 2, 2, 1, 1], "strides": [1, 2, 1, 1, 1]}
    return [
        *found,
        tf.image.resize(x, (4, 3), "area"),
        raw.ExtractVolumePatches(input=x[:, :, :, None], **sizes, padding="SAME"),
        tf.image.rot90(x),
        tf.slice(x, at, [2, 4, 4, 3]),
        *[
            q(x, -0.5, 0.7, range_given=y, signed_input=z)
            for y in (True, False)
            for z in (True, False)
        ],
        q(x, [-0.5] * 3, [0.7, 0.2, 0.9], axis=3, narrow_range=True),
        q(x, [0.0] * 3, [0.0] * 3, axis=3, round_mode="HALF_UP"),
    ]


@graph(x=uniform(3))
def stateful_numbers(x):
    r = tf.random
    return [
        r.normal((4, 5), seed=7) + x[0],
        r.uniform((10,), seed=3),
        r.uniform((10,), 0, 100, tf.int32, seed=3),
        r.truncated_normal((9,), seed=8),
    ]


@first(x=uniform(3, 4))
def branches_of_1(x):
    v1 = tf.compat.v1
    once = v1.cond(x[0, 0] > 0, lambda: [x * 2, x[0]], lambda: [tf.sin(x), x[1] + 1])

    def inner():
        return v1.cond(x[0, 2] > 0, lambda: once[0], lambda: -once[0])

    return [*once, v1.cond(x[0, 1] > 0, inner, lambda: once[0] * 0)]


@first(x=uniform(4, 4))
def loops_of_1(x):
    v1 = tf.compat.v1
    number, y = v1.while_loop(
        lambda k, y: k < 5, lambda k, y: (k + 1, tf.tanh(y @ x)), [tf.constant(0), x]
    )

    def inner(i, z):
        def choose(w):
            return v1.cond(w[0, 0] > 0, lambda: w + x, lambda: w - y)

        return i + 1, v1.while_loop(lambda j, w: j < i, lambda j, w: (j + 1, choose(w)), [0, z])[1]

    return [number, y, v1.while_loop(lambda i, z: i < 3, inner, [tf.constant(0), x])[1]]


@first(x=uniform(2, 7, 3))
def arrays_of_1(x):
    v1 = tf.compat.v1
    read = v1.TensorArray(tf.float32, 7).unstack(tf.transpose(x, [1, 0, 2]))
    made = v1.TensorArray(tf.float32, read.size())

    def step(t, h, made):
        h = tf.tanh(read.read(t) + h * 0.5)
        return t + 1, h, made.write(t, h)

    _, h, made = v1.while_loop(lambda t, *_: t < 7, step, [tf.constant(0), tf.zeros((2, 3)), made])
    pair = v1.TensorArray(tf.float32, 2, infer_shape=False).write(0, x[0]).write(1, x[1])
    return [h, made.stack(), pair.concat()]


class State(tf.Module):
    """Random numbers, a table and updates of variables."""

    def __init__(self):
        self.generator = tf.random.Generator.from_seed(7)
        keys, values = tf.constant([9, 1, 5], tf.int64), tf.constant([90.0, 10.0, 50.0])
        fill = tf.lookup.KeyValueTensorInitializer(keys, values)
        self.table = tf.lookup.StaticHashTable(fill, -1.0)
        self.parts = [tf.Variable(tf.fill([2, 3], 0.5 + i % 8), name=f"part{i}") for i in range(30)]

    @tf.function(input_signature=[tf.TensorSpec((2, 3), name="x")])
    def call(self, x):
        raw, r = tf.raw_ops, tf.random
        p = [y.handle for y in self.parts]
        keys = tf.cast(tf.abs(x) * 10, tf.int64)
        found = {
            "normal": r.normal((2, 5), seed=7),
            "uniform": r.uniform((2, 3), seed=3),
            "whole": r.uniform((6,), 0, 100, tf.int32, seed=3),
            "cut": r.truncated_normal((9,), seed=8),
            "own": self.generator.normal((3,)),
            "more": self.generator.uniform((5,)),
            "table": self.table.lookup(keys),
            "sizes": raw.VariableShape(input=p[0]),
        }
        raw.ResourceApplyAdagrad(var=p[0], accum=p[1], lr=0.1, grad=x)
        raw.ResourceApplyAdagradV2(var=p[0], accum=p[1], lr=0.1, epsilon=1e-3, grad=x)
        raw.ResourceApplyRMSProp(
            var=p[2], ms=p[3], mom=p[4], lr=0.01, rho=0.9, momentum=0.5, epsilon=1e-3, grad=x
        )
        raw.ResourceApplyAdadelta(
            var=p[5], accum=p[6], accum_update=p[7], lr=0.1, rho=0.9, epsilon=1e-3, grad=x
        )
        raw.ResourceApplyAdaMax(
            var=p[8],
            m=p[9],
            v=p[10],
            beta1_power=0.8,
            lr=0.1,
            beta1=0.9,
            beta2=0.95,
            epsilon=1e-3,
            grad=x,
        )
        raw.ResourceApplyAddSign(
            var=p[11], m=p[12], lr=0.1, alpha=1.0, sign_decay=0.7, beta=0.9, grad=x
        )
        raw.ResourceApplyPowerSign(
            var=p[13], m=p[14], lr=0.1, logbase=0.8, sign_decay=0.7, beta=0.9, grad=x
        )
        raw.ResourceApplyCenteredRMSProp(
            var=p[15],
            mg=p[28],
            ms=p[29],
            mom=p[16],
            lr=0.01,
            rho=0.9,
            momentum=0.5,
            epsilon=99.0,
            grad=x,
        )
        steps = {"grad": x, "lr": 0.5, "l1": 0.3, "l2": 0.2}
        raw.ResourceApplyFtrl(var=p[17], accum=p[18], linear=p[19], lr_power=-0.5, **steps)
        raw.ResourceApplyFtrlV2(
            var=p[20], accum=p[21], linear=p[22], l2_shrinkage=0.1, lr_power=-0.25, **steps
        )
        raw.ResourceApplyFtrl(
            var=p[23], accum=p[24], linear=p[25], lr_power=-0.5, multiply_linear_by_lr=True, **steps
        )
        raw.ResourceApplyProximalAdagrad(var=p[26], accum=p[24], **steps)
        raw.ResourceApplyProximalGradientDescent(var=p[27], alpha=0.1, l1=0.4, l2=0.2, delta=x)
        for i in (0, 2, 5, 8, 11, 13, 15, 17, 20, 23, 26, 27):
            found[f"part{i}"] = self.parts[i].read_value()
        return found


def record_graphs(folder):
    arrays = {}
    for name, make in GRAPHS.items():
        tf.random.set_seed(5)
        proto, values, inputs, outputs = make()
        for node in [*proto.node, *[x for f in proto.library.function for x in f.node_def]]:
            for key in [x for x in node.attr if x.startswith("_") or x == "output_shapes"]:
                del node.attr[key]
            node.ClearField("experimental_debug_info")
        for function in proto.library.function:
            for key in list(function.attr):
                del function.attr[key]
            for key in list(function.arg_attr):
                del function.arg_attr[key]
        data = proto.SerializeToString(deterministic=True)
        arrays[f"{name}/graph"] = np.frombuffer(data, np.uint8)
        arrays[f"{name}/values"] = np.array(values)
        arrays |= {f"{name}/in/{x}": y for x, y in inputs.items()}
        arrays |= {f"{name}/out/{i}": y for i, y in enumerate(outputs)}
    folder.mkdir(exist_ok=True)
    content = io.BytesIO()
    np.savez(content, **arrays)
    (folder / "graphs.npz.xz").write_bytes(lzma.compress(content.getvalue(), preset=9))


def record_state(folder):
    tf.random.set_seed(5)
    module, place = State(), folder / "saved_state"
    shutil.rmtree(place, ignore_errors=True)
    tf.saved_model.save(module, str(place), signatures={"serving_default": module.call})
    shutil.rmtree(place / "assets")
    (place / "fingerprint.pb").unlink()
    loaded = tf.saved_model.load(str(place)).signatures["serving_default"]
    x = uniform(2, 3)
    found = {"x": x}
    for step in range(3):
        results = loaded(x=tf.constant(x))
        found |= {f"{step}/{name}": y.numpy() for name, y in results.items()}
    np.savez_compressed(folder / "saved_state.npz", **found)


if __name__ == "__main__":
    record_graphs(Path(sys.argv[1]))
    record_state(Path(sys.argv[1]))
