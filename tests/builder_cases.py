"""One build per opcode: what a program that uses the method looks like."""

from lowtide.builder import Builder
from lowtide.ir import ElementType, Opcode, array_shape
from lowtide.ir.attributes import (
    ConvolutionDimensions,
    CustomCall,
    DotDimensions,
    Gather,
    RaggedDot,
    Scatter,
    Window,
    WindowDimension,
)
from lowtide.ir.sharding import REPLICATED

E = ElementType
F = array_shape(E.F32, (4, 6))
S = array_shape(E.S32, (4, 6))
P = array_shape(E.PRED, (4, 6))
F0, S0, P0 = (array_shape(t) for t in (E.F32, E.S32, E.PRED))


def arguments(builder, *shapes):
    return [builder.parameter(i, shape) for i, shape in enumerate(shapes)]


def unary(method, shape=F):
    return lambda b: getattr(b, method)(*arguments(b, shape))


def binary(method, shape=F):
    return lambda b: getattr(b, method)(*arguments(b, shape, shape))


def adder(builder, element_type=E.F32):
    return builder.scalar_computation(Opcode.ADD, element_type)


def less(builder):
    return builder.sub_computation("less", [F0, F0], lambda x, y: x.lt(y))


def doubled(builder, shape=F):
    return builder.sub_computation("doubled", [shape], lambda x: x * 2)


def loop(b):
    (x,) = arguments(b, F)
    state = b.tuple([b.constant(0), x])

    def body(s):
        return s.builder.tuple([s[0] + 1, s[1] * 0.5])

    return b.while_(
        b.sub_computation("condition", [state.shape], lambda s: s[0].lt(3)),
        b.sub_computation("body", [state.shape], body),
        state,
    )


def branches(b):
    index, x = arguments(b, S0, F)
    negated = b.sub_computation("negated", [F], lambda x: -x)
    kept = b.sub_computation("kept", [F], lambda x: x)
    return b.conditional(index, [x, x, x], [doubled(b), negated, kept])


def picked(b):
    x, indices = arguments(b, F, array_shape(E.S32, (3, 1)))
    return b.gather(x, indices, Gather((1,), (0,), (0,), 1, (1, 6)))


def scattered(b):
    shapes = F, array_shape(E.S32, (3, 1)), array_shape(E.F32, (3, 6))
    x, indices, updates = arguments(b, *shapes)
    return b.scatter(x, indices, updates, adder(b), Scatter((1,), (0,), (0,), 1))


WINDOW = Window((WindowDimension(2, 2), WindowDimension(3, 1, 1, 1)))


def pooled(b):
    (x,) = arguments(b, F)
    return b.reduce_window(x, 0, adder(b), WINDOW)


def unpooled(b):
    x, source = arguments(b, F, array_shape(E.F32, (2, 6)))
    greater = b.sub_computation("ge", [F0, F0], lambda x, y: x.ge(y))
    return b.select_and_scatter(x, greater, WINDOW, source, 0, adder(b))


def accumulated(b):
    (x,) = arguments(b, F)
    column = array_shape(E.F32, (4,))

    def step(x, carry):
        return x.builder.tuple([x + carry, x * carry])

    init = b.broadcast(b.constant(0.0), [4], [])
    return b.scan(x, init, b.sub_computation("step", [column, column], step), 1)


def convolved(b):
    x, kernel = arguments(b, array_shape(E.F32, (1, 5, 5, 3)), array_shape(E.F32, (2, 2, 3, 4)))
    return b.convolution(x, kernel, ConvolutionDimensions(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2)))


def normalized(method, *per_feature, gradient=False):
    def build(b):
        row = array_shape(E.F32, (6,))
        shapes = [F, *[row] * len(per_feature), *[F] * gradient]
        return getattr(b, method)(*arguments(b, *shapes), 0.5, 1)

    return build


def on_token(build):
    return lambda b: build(b, b.after_all())


def grouped(b):
    x, y, sizes = arguments(
        b, array_shape(E.F32, (8, 5)), array_shape(E.F32, (3, 5, 7)), array_shape(E.S64, (3,))
    )
    return b.ragged_dot(x, y, sizes, RaggedDot(DotDimensions((1,), (1,)), (0,), (0,)))


def scaled(b):
    bf16 = array_shape(E.BF16, (4, 8))
    scale = array_shape(E.BF16, (4, 1))
    a, c, s, t = arguments(b, bf16, bf16, scale, scale)
    return b.scaled_dot(a, c, s, t, DotDimensions((1,), (1,)), element_type=E.F32)


def started(b):
    thread = b.sub_builder("wrapped", execution_thread="other")
    x = thread.parameter(0, F)
    return b.async_start(arguments(b, F), thread.build_computation(-abs(x)))


def ragged_exchange(b):
    rows, four = array_shape(E.F32, (8, 2)), array_shape(E.S32, (4,))
    return b.ragged_all_to_all(arguments(b, rows, rows, four, four, four, four), [[0, 1, 2, 3]])


CASES = {
    Opcode.ABS: unary("abs"),
    Opcode.ADD: binary("add"),
    Opcode.ADD_DEPENDENCY: on_token(lambda b, t: b.add_dependency(arguments(b, F)[0], t)),
    Opcode.AFTER_ALL: on_token(lambda b, t: b.after_all([t, t])),
    Opcode.ALL_GATHER: lambda b: b.all_gather(arguments(b, F), 1, 2, [[0, 1]]),
    Opcode.ALL_GATHER_DONE: lambda b: b.all_gather_done(
        b.all_gather_start(arguments(b, F), 1, 2, [[0, 1]])
    ),
    Opcode.ALL_GATHER_START: lambda b: b.all_gather_done(
        b.all_gather_start(
            arguments(b, F, F), 0, 2, [[0, 1]], channel_id=1, use_global_device_ids=True
        )
    ),
    Opcode.ALL_REDUCE: lambda b: b.all_reduce(arguments(b, F), adder(b), [[0, 1], [2, 3]]),
    Opcode.ALL_REDUCE_DONE: lambda b: b.all_reduce_done(
        b.all_reduce_start(arguments(b, F), adder(b))
    ),
    Opcode.ALL_REDUCE_START: lambda b: b.all_reduce_done(
        b.all_reduce_start(arguments(b, F, F), adder(b), (), 7)
    ),
    Opcode.ALL_TO_ALL: lambda b: b.all_to_all(arguments(b, F), 0, [[0, 1]]),
    Opcode.ASYNC_DONE: lambda b: b.async_done(started(b)),
    Opcode.ASYNC_START: lambda b: b.async_done(started(b)),
    Opcode.ASYNC_UPDATE: lambda b: b.async_done(b.async_update(started(b))),
    Opcode.BATCH_NORM_GRAD: normalized("batch_norm_grad", "scale", "mean", "var", gradient=True),
    Opcode.BATCH_NORM_INFERENCE: normalized(
        "batch_norm_inference", "scale", "offset", "mean", "var"
    ),
    Opcode.BATCH_NORM_TRAINING: normalized("batch_norm_training", "scale", "offset"),
    Opcode.BITCAST: lambda b: b.bitcast(arguments(b, F)[0], array_shape(E.F32, (24,))),
    Opcode.BITCAST_CONVERT: lambda b: b.bitcast_convert(arguments(b, F)[0], E.U16),
    Opcode.BROADCAST: lambda b: b.broadcast(arguments(b, F)[0], [2, 4, 6], [1, 2]),
    Opcode.CALL: lambda b: b.call(arguments(b, F), doubled(b)),
    Opcode.CHOLESKY: lambda b: b.cholesky(*arguments(b, array_shape(E.F32, (3, 3))), lower=True),
    Opcode.CLAMP: lambda b: b.clamp(0, arguments(b, F)[0], 6),
    Opcode.COLLECTIVE_BROADCAST: lambda b: b.collective_broadcast(arguments(b, F), [[0, 1]]),
    Opcode.COLLECTIVE_PERMUTE: lambda b: b.collective_permute(arguments(b, F), [(0, 1), (1, 0)]),
    Opcode.COLLECTIVE_PERMUTE_DONE: lambda b: b.collective_permute_done(
        b.collective_permute_start(arguments(b, F), [(0, 1)])
    ),
    Opcode.COLLECTIVE_PERMUTE_START: lambda b: b.collective_permute_done(
        b.collective_permute_start(arguments(b, F, S), [(0, 1)], 3)
    ),
    Opcode.COMPARE: lambda b: b.compare(*arguments(b, F, F), "GE", "TOTALORDER"),
    Opcode.COMPLEX: binary("complex"),
    Opcode.CONCATENATE: lambda b: b.concatenate(arguments(b, F, F), 1),
    Opcode.CONDITIONAL: branches,
    Opcode.CONSTANT: lambda b: b.constant([[1.5, -2], [0, 3]]),
    Opcode.CONVERT: lambda b: b.convert(arguments(b, F)[0], E.BF16),
    Opcode.CONVOLUTION: convolved,
    Opcode.COPY: unary("copy"),
    Opcode.COPY_DONE: lambda b: b.copy_done(b.copy_start(*arguments(b, F))),
    Opcode.COPY_START: lambda b: b.copy_done(b.copy_start(*arguments(b, F))),
    Opcode.CUSTOM_CALL: lambda b: b.custom_call(
        CustomCall("f", has_side_effect=True), arguments(b, F), F, [doubled(b)], "x=1"
    ),
    Opcode.DOMAIN: lambda b: b.domain(arguments(b, F)[0], REPLICATED, REPLICATED),
    Opcode.DOT: lambda b: b.dot(
        *arguments(b, array_shape(E.BF16, (2, 3)), array_shape(E.BF16, (3, 4))), element_type=E.F32
    ),
    Opcode.DYNAMIC_RESHAPE: lambda b: b.dynamic_reshape(
        arguments(b, F, S0, S0)[0], [b.constant(4), b.constant(6)], [6, 4]
    ),
    Opcode.DYNAMIC_SLICE: lambda b: b.dynamic_slice(arguments(b, F)[0], [1, 2], [2, 6]),
    Opcode.DYNAMIC_UPDATE_SLICE: lambda b: b.dynamic_update_slice(
        *arguments(b, F, array_shape(E.F32, (2, 2))), [1, 2]
    ),
    Opcode.FFT: lambda b: b.fft(arguments(b, F)[0], "RFFT", [4, 6]),
    Opcode.FUSION: lambda b: b.fusion(arguments(b, F), doubled(b), "kInput"),
    Opcode.GATHER: picked,
    Opcode.GET_DIMENSION_SIZE: lambda b: b.get_dimension_size(arguments(b, F)[0], 1),
    Opcode.GET_TUPLE_ELEMENT: lambda b: b.tuple(arguments(b, F, S))[1],
    Opcode.IMAG: unary("imag", array_shape(E.C64, (3,))),
    Opcode.INFEED: on_token(lambda b, t: b.infeed(t, F, b"config")),
    Opcode.IOTA: lambda b: b.iota(S, 1),
    Opcode.IS_FINITE: unary("is_finite"),
    Opcode.MAP: lambda b: b.map(arguments(b, F, F), adder(b)),
    Opcode.NOT: unary("not_", P),
    Opcode.OUTFEED: on_token(lambda b, t: b.outfeed(arguments(b, F)[0], t, b"config")),
    Opcode.PAD: lambda b: b.pad(arguments(b, F)[0], 0, [(1, -1), (0, 2, 1)]),
    Opcode.PARAMETER: lambda b: arguments(b, F)[0],
    Opcode.PARTITION_ID: lambda b: b.partition_id(),
    Opcode.RAGGED_ALL_TO_ALL: ragged_exchange,
    Opcode.RAGGED_DOT: grouped,
    Opcode.RECV: on_token(lambda b, t: b.recv_done(b.recv(t, F, 2))),
    Opcode.RECV_DONE: on_token(lambda b, t: b.recv_done(b.recv(t, F, 2, is_host_transfer=True))),
    Opcode.REDUCE: lambda b: b.reduce(arguments(b, F), 0, adder(b), [1]),
    Opcode.REDUCE_PRECISION: lambda b: b.reduce_precision(arguments(b, F)[0], 5, 10),
    Opcode.REDUCE_SCATTER: lambda b: b.reduce_scatter(arguments(b, F), adder(b), 1, 3, [[0, 1, 2]]),
    Opcode.REDUCE_WINDOW: pooled,
    Opcode.REPLICA_ID: lambda b: b.replica_id(),
    Opcode.RESHAPE: lambda b: b.reshape(arguments(b, F)[0], [2, 12]),
    Opcode.REVERSE: lambda b: b.reverse(arguments(b, F)[0], [1]),
    Opcode.RNG: lambda b: b.rng(0, 1, F),
    Opcode.RNG_BIT_GENERATOR: lambda b: b.rng_bit_generator(
        arguments(b, array_shape(E.U64, (2,)))[0], array_shape(E.U32, (5,))
    ),
    Opcode.RNG_GET_AND_UPDATE_STATE: lambda b: b.rng_get_and_update_state(16),
    Opcode.SCALED_DOT: scaled,
    Opcode.SCAN: accumulated,
    Opcode.SCATTER: scattered,
    Opcode.SELECT: lambda b: b.select(*arguments(b, P, F), 0),
    Opcode.SELECT_AND_SCATTER: unpooled,
    Opcode.SEND: on_token(lambda b, t: b.send_done(b.send(arguments(b, F)[0], t, 1))),
    Opcode.SEND_DONE: on_token(
        lambda b, t: b.send_done(b.send(arguments(b, F)[0], t, 1, is_host_transfer=True))
    ),
    Opcode.SET_DIMENSION_SIZE: lambda b: b.set_dimension_size(*arguments(b, F, S0), 1),
    Opcode.SLICE: lambda b: b.slice(arguments(b, F)[0], [0, 1], [4, 6], [1, 2]),
    Opcode.SORT: lambda b: b.sort(arguments(b, F), less(b), is_stable=True),
    Opcode.STOCHASTIC_CONVERT: lambda b: b.stochastic_convert(
        *arguments(b, F, array_shape(E.U32, (4, 6))), E.BF16
    ),
    Opcode.TOPK: lambda b: b.topk(arguments(b, F)[0], 2),
    Opcode.TRANSPOSE: lambda b: b.transpose(arguments(b, F)[0], [1, 0]),
    Opcode.TRIANGULAR_SOLVE: lambda b: b.triangular_solve(
        *arguments(b, array_shape(E.F32, (4, 4)), F)
    ),
    Opcode.TUPLE: lambda b: b.tuple(arguments(b, F, S)),
    Opcode.WHILE: loop,
}

_PLAIN = {
    F: "acos acosh asin asinh atanh cbrt ceil cosh cosine erf exponential exponential-minus-one "
    "floor log log-plus-one logistic negate round-nearest-afz round-nearest-even rsqrt sign sine "
    "sinh sqrt tan tanh opt-barrier",
    S: "count-leading-zeros popcnt",
    array_shape(E.C64, (3,)): "real",
}
_PLAIN_BINARY = {
    F: "atan2 divide maximum minimum multiply power remainder subtract",
    S: "mulhi shift-left shift-right-arithmetic shift-right-logical xor",
    P: "and or",
}


def method_name(opcode):
    name = opcode.value.replace("-", "_")
    return f"{name}_" if name in ("and", "or", "not", "while") else name


for _table, _make in ((_PLAIN, unary), (_PLAIN_BINARY, binary)):
    for _shape, _names in _table.items():
        for _name in _names.split():
            CASES[Opcode(_name)] = _make(method_name(Opcode(_name)), _shape)


def build(opcode):
    builder = Builder("test")
    return builder.build(CASES[opcode](builder))
