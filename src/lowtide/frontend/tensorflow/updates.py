"""Updates of variables as functions: what they hold afterwards, of what they held."""

from __future__ import annotations

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.indexing import from_end, put_vectors, take
from lowtide.frontend.tensorflow.graph_def import DOMAIN


@op("AssignAddVariableOp", "AssignSubVariableOp", domain=DOMAIN, inputs=2)
def add(context: OpKernelContext) -> None:
    """Give the sum, or the difference, of a variable and a value."""
    held, value = context.inputs()
    is_sum = context.node.op == "AssignAddVariableOp"
    context.set_output(0, held + value if is_sum else held - value)


@op("ResourceApplyGradientDescent", domain=DOMAIN, inputs=3)
def gradient_descent(context: OpKernelContext) -> None:
    """Give a variable less a rate times its gradient."""
    held, rate, gradient = context.inputs()
    context.set_output(0, held - spread(context.builder, rate, held) * gradient)


@op("ResourceApplyMomentum", "ResourceApplyKerasMomentum", domain=DOMAIN, inputs=5)
def momentum(context: OpKernelContext) -> None:
    """Give a variable and its momentum after a step; Keras has the rate within the momentum."""
    b = context.builder
    held, moved, rate, gradient, share = context.inputs()
    rate, share = spread(b, rate, held), spread(b, share, held)
    ahead = context.attribute("use_nesterov", flag, False)
    if context.node.op == "ResourceApplyKerasMomentum":
        after = moved * share - gradient * rate
        step = after * share - gradient * rate if ahead else after
        context.set_output(0, held + step)
    else:
        after = moved * share + gradient
        step = gradient * rate + after * share * rate if ahead else after * rate
        context.set_output(0, held - step)
    context.set_output(1, after)


@op("ResourceApplyAdam", domain=DOMAIN, inputs=10)
def adam(context: OpKernelContext) -> None:
    """Give a variable and its two moments after a step of Adam (Kingma and Ba 2014)."""
    b = context.builder
    held, first, second = [context.input(i) for i in range(3)]
    powers, rate, betas, epsilon = (3, 4), context.input(5), (6, 7), context.input(8)
    gradient = context.input(9)
    one = b.constant(1.0, held.element_type)
    beta1, beta2 = [spread(b, context.input(i), held) for i in betas]
    power1, power2 = [context.input(i) for i in powers]
    step = spread(b, rate * b.sqrt(one - power2) / (one - power1), held)
    first = first + (gradient - first) * (1.0 - beta1)
    second = second + (gradient * gradient - second) * (1.0 - beta2)
    ahead = first * beta1 + gradient * (1.0 - beta1)
    moment = ahead if context.attribute("use_nesterov", flag, False) else first
    context.set_output(0, held - step * moment / (b.sqrt(second) + spread(b, epsilon, held)))
    context.set_output(1, first)
    context.set_output(2, second)


@op("ResourceApplyAdagrad", "ResourceApplyAdagradV2", domain=DOMAIN, inputs=(4, 5))
def adagrad(context: OpKernelContext) -> None:
    """Give a variable and its sum of squares after a step (Duchi, Hazan and Singer 2011)."""
    b = context.builder
    held, total, rate = [context.input(i) for i in range(3)]
    gradient = context.input(context.input_count - 1)
    if context.attribute("update_slots", flag, True):
        total = total + gradient * gradient
    root = b.sqrt(total)
    if context.input_count == 5:
        root = root + spread(b, context.input(3), held)
    context.set_output(0, held - gradient * spread(b, rate, held) / root)
    context.set_output(1, total)


@op("ResourceApplyRMSProp", domain=DOMAIN, inputs=8)
def rms_prop(context: OpKernelContext) -> None:
    """Give a variable, its mean of squares and its momentum after a step (Hinton 2012)."""
    b = context.builder
    held, square, moved = [context.input(i) for i in range(3)]
    rate, decay, share, epsilon = [spread(b, context.input(i), held) for i in range(3, 7)]
    gradient = context.input(7)
    square = square + (gradient * gradient - square) * b.subtract(1.0, decay)
    moved = moved * share + gradient * rate / b.sqrt(square + epsilon)
    for number, value in enumerate((held - moved, square, moved)):
        context.set_output(number, value)


@op("ResourceApplyAdadelta", domain=DOMAIN, inputs=7)
def adadelta(context: OpKernelContext) -> None:
    """Give a variable and its two means of squares after a step (Zeiler 2012)."""
    b = context.builder
    held, square, moved = [context.input(i) for i in range(3)]
    rate, decay, epsilon = [spread(b, context.input(i), held) for i in range(3, 6)]
    gradient, rest = context.input(6), b.subtract(1.0, decay)
    square = square * decay + gradient * gradient * rest
    step = b.sqrt(moved + epsilon) * b.rsqrt(square + epsilon) * gradient
    moved = moved * decay + step * step * rest
    for number, value in enumerate((held - step * rate, square, moved)):
        context.set_output(number, value)


@op("ResourceApplyAdaMax", domain=DOMAIN, inputs=9)
def ada_max(context: OpKernelContext) -> None:
    """Give a variable and its two moments after a step of AdaMax (Kingma and Ba 2014)."""
    b = context.builder
    held, first, most = [context.input(i) for i in range(3)]
    power, rate, beta1, beta2, epsilon = [spread(b, context.input(i), held) for i in range(3, 8)]
    gradient = context.input(8)
    first = first + (gradient - first) * (1.0 - beta1)
    most = b.maximum(most * beta2, b.abs(gradient))
    step = rate / (1.0 - power) * (first / (most + epsilon))
    for number, value in enumerate((held - step, first, most)):
        context.set_output(number, value)


@op("ResourceApplyCenteredRMSProp", domain=DOMAIN, inputs=9)
def centered_rms_prop(context: OpKernelContext) -> None:
    """Give a variable, its mean, its mean of squares and its momentum after a step."""
    b = context.builder
    held, mean, square, moved = [context.input(i) for i in range(4)]
    rate, decay, share, epsilon = [spread(b, context.input(i), held) for i in range(4, 8)]
    gradient, rest = context.input(8), b.subtract(1.0, decay)
    square = square + (gradient * gradient - square) * rest
    mean = mean + (gradient - mean) * rest
    moved = moved * share + gradient * rate / b.sqrt(square - mean * mean + epsilon)
    for number, value in enumerate((held - moved, mean, square, moved)):
        context.set_output(number, value)


@op("ResourceApplyAddSign", "ResourceApplyPowerSign", domain=DOMAIN, inputs=7)
def by_sign(context: OpKernelContext) -> None:
    """Give a variable and its mean after a step, longer where signs agree (Bello et al. 2017)."""
    b = context.builder
    held, mean = [context.input(i) for i in range(2)]
    rate, base, decay, beta = [spread(b, context.input(i), held) for i in range(2, 6)]
    gradient = context.input(6)
    mean = mean * beta + gradient * (1.0 - beta)
    agreed = decay * b.sign(gradient) * b.sign(mean)
    is_sum = context.node.op == "ResourceApplyAddSign"
    factor = base + agreed if is_sum else b.exponential(base * agreed)
    context.set_output(0, held - rate * factor * gradient)
    context.set_output(1, mean)


def spread(b: Builder, x: Op, like: Op) -> Op:
    """Return one number for each element of a variable."""
    return b.broadcast(b.reshape(x, []), like.dimensions, [])


@op("ResourceGather", domain=DOMAIN, inputs=2)
def gather(context: OpKernelContext) -> None:
    """Give slices of a variable along its first dimension, by their places."""
    x = context.input(0)
    places = from_end(context.builder, context.input(1), x.dimensions[0])
    context.set_output(0, take(context.builder, x, places, 0))


@op("ResourceScatterAdd", "ResourceScatterUpdate", domain=DOMAIN, inputs=3)
def scatter(context: OpKernelContext) -> None:
    """Give a variable whose slices at some places are added to, or replaced."""
    b = context.builder
    held, places, updates = context.inputs()
    vectors = b.reshape(places, [*places.dimensions, 1])
    kind = "add" if context.node.op == "ResourceScatterAdd" else "none"
    context.set_output(0, put_vectors(b, held, vectors, updates, kind))
