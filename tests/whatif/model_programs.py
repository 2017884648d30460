"""Programs in JAX of further kinds, as people write them; their source changes as what-if says."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tests.whatif.programs import Program, convolve, descend, entropy, made_again, norm, scan, spec


def heads(x: Any, w: Any, mask: Any = None) -> Any:
    """Attention of four heads."""
    count, length, width = x.shape
    q, k, v = [jnp.reshape(x @ w[name], (count, length, 4, width // 4)) for name in "qkv"]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // 4)
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(count, length, width) @ w["o"]


def wide(x: Any, w: Any) -> Any:
    """The products of a layer."""
    return jax.nn.gelu(x @ w["up"]) @ w["down"]


def layer(x: Any, w: Any, mask: Any = None) -> Any:
    """A layer of a transformer."""
    x = x + made_again(heads)(norm(x), w, mask)
    return x + made_again(wide)(norm(x), w)


_WIDE: Final = {"up": spec(32, 128), "down": spec(128, 32)}
_LAYER: Final = {**{name: spec(32, 32) for name in "qkvo"}, **_WIDE}


def classify(p: Any, images: Any) -> Any:
    """A vision transformer with a token for the class."""
    count = len(images)
    x = images.reshape(count, 6, 4, 6, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(count, 36, 48)
    x = x @ p["patch"]
    token = jnp.broadcast_to(p["token"], (count, 1, x.shape[-1]))
    x = jnp.concatenate([token, x], 1) + p["place"]
    for w in p["layers"]:
        x = made_again(layer)(x, w)
    return norm(x[:, 0]) @ p["head"]


_CLASSIFY: Final = {
    "patch": spec(48, 32),
    "token": spec(1, 1, 32),
    "place": spec(37, 32),
    "layers": [_LAYER] * 2,
    "head": spec(32, 10),
}


def adam_step(params: Any, mean: Any, square: Any, images: Any, labels: Any) -> Any:
    """A step of training with two states for each parameter."""

    def loss(p: Any) -> Any:
        return entropy(classify(p, images), labels)

    value, gradient = jax.value_and_grad(loss)(params)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, square, gradient)
    params = jax.tree.map(lambda x, m, v: x - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, mean, square)
    return params, mean, square, value


def experts(x: Any, w: Any) -> Any:
    """A layer whose rows go to two of four experts each, with room for half of them."""
    gate = jax.nn.softmax(x @ w["gate"])
    top, which = lax.top_k(gate, 2)
    put = jax.nn.one_hot(which, gate.shape[-1])
    weight = (put * top[..., None]).sum(1)
    own = put.sum(1)
    place = (jnp.cumsum(own, 0) - 1) * own
    sent = jax.nn.one_hot(place.astype(jnp.int32), x.shape[0] // 2) * own[..., None]
    hidden = jax.nn.gelu(jnp.einsum("ecd,edf->ecf", jnp.einsum("td,tec->ecd", x, sent), w["up"]))
    made = jnp.einsum("ecf,efd->ecd", hidden, w["down"])
    return jnp.einsum("ecd,tec,te->td", made, sent, weight)


def experts_step(params: Any, x: Any, y: Any) -> Any:
    """A step of training layers of experts."""

    def loss(p: Any) -> Any:
        h = x
        for w in p:
            h = h + made_again(experts)(norm(h), w)
        return ((h - y) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    return descend(params, gradient), value


_EXPERTS: Final = {"gate": spec(32, 4), "up": spec(4, 32, 64), "down": spec(4, 64, 32)}


def masked_step(params: Any, tokens: Any, lengths: Any, labels: Any) -> Any:
    """A step of training a loop over sequences of several lengths, with a bounded gradient."""

    def loss(p: Any) -> Any:
        def cell(h: Any, given: Any) -> Any:
            x, time = given
            gate = jax.nn.sigmoid(x @ p["gate_x"] + h @ p["gate_h"])
            new = gate * h + (1 - gate) * jnp.tanh(x @ p["x"] + h @ p["h"])
            return jnp.where((time < lengths)[:, None], new, h), None

        xs = p["words"][tokens].transpose(1, 0, 2)
        start = jnp.zeros((tokens.shape[0], p["h"].shape[0]))
        return entropy(scan(cell, start, (xs, jnp.arange(xs.shape[0]))) @ p["out"], labels)

    value, gradient = jax.value_and_grad(loss)(params)
    size = jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda x: x * jnp.minimum(1.0, 1.0 / size), gradient)
    return descend(params, gradient), {"loss": value, "size": size}


_MASKED: Final = {
    "words": spec(100, 24),
    **{name: spec(24, 32) for name in ("gate_x", "x")},
    **{name: spec(32, 32) for name in ("gate_h", "h")},
    "out": spec(32, 5),
}


def messages(h: Any, e: Any, ends: Any, w: Any) -> Any:
    """A round of messages along the edges of a graph."""
    source, target = ends
    e = jax.nn.relu(jnp.concatenate([h[source], h[target], e], -1) @ w["edge"])
    heard = jax.ops.segment_sum(e, target, h.shape[0])
    return h + jax.nn.relu(jnp.concatenate([h, heard], -1) @ w["node"]), e


def graph_step(params: Any, nodes: Any, edges: Any, ends: Any, target: Any) -> Any:
    """A step of training a network on a graph."""

    def loss(p: Any) -> Any:
        h, e = nodes @ p["nodes"], edges @ p["edges"]
        for w in p["rounds"]:
            h, e = made_again(messages)(h, e, ends, w)
        return ((h @ p["out"] - target) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    return descend(params, gradient), value


_GRAPH: Final = {
    "nodes": spec(16, 32),
    "edges": spec(8, 32),
    "rounds": [{"edge": spec(96, 32), "node": spec(64, 32)}] * 3,
    "out": spec(32, 4),
}


def policy(p: Any, seen: Any) -> Any:
    """What to do, and what it is worth."""
    h = jnp.tanh(jnp.tanh(seen @ p["first"]) @ p["second"])
    return h @ p["policy"], (h @ p["value"])[..., 0]


def policy_step(params: Any, seen: Any, done: Any, rewards: Any, before: Any) -> Any:
    """A step of proximal policy optimization."""
    _, values = policy(params, seen)

    def back(after: Any, given: Any) -> Any:
        reward, value = given
        return reward - value + 0.94 * after, reward - value + 0.94 * after

    _, gain = lax.scan(back, jnp.zeros_like(rewards[0]), (rewards, values), reverse=True)
    aim = gain + values
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)

    def loss(p: Any) -> Any:
        logits, value = made_again(policy)(p, seen)
        chances = jax.nn.log_softmax(logits)
        ratio = jnp.exp(jnp.take_along_axis(chances, done[..., None], -1)[..., 0] - before)
        better = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean()
        return 0.5 * ((value - aim) ** 2).mean() - better, better

    (value, better), gradient = jax.value_and_grad(loss, has_aux=True)(params)
    return descend(params, gradient), value, better


_POLICY: Final = {
    "first": spec(24, 64),
    "second": spec(64, 64),
    "policy": spec(64, 6),
    "value": spec(64, 1),
}


def residual(x: Any, time: Any, w: Any) -> Any:
    """Two convolutions with a way past them, told of the time between."""
    h = convolve(jax.nn.silu(norm(x)), w["first"])
    h = h + (jax.nn.silu(time) @ w["time"])[:, None, None]
    return x + convolve(jax.nn.silu(norm(h)), w["second"])


def diffusion_step(params: Any, average: Any, noise: Any, times: Any, images: Any) -> Any:
    """A step of training a network that finds noise, and the average of its parameters."""
    share = jnp.cos(times * 1.5)[:, None, None, None]
    noisy = share * images + jnp.sqrt(1 - share**2) * noise

    def loss(p: Any) -> Any:
        turns = times[:, None] * jnp.exp(jnp.arange(16) * -0.5)
        time = jnp.concatenate([jnp.sin(turns), jnp.cos(turns)], -1) @ p["time"]
        x = convolve(noisy, p["stem"])
        for w in p["blocks"]:
            x = made_again(residual)(x, time, w)
        return ((convolve(x, p["out"]) - noise) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    params = descend(params, gradient)
    return params, jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b, average, params), value


_RESIDUAL: Final = {"first": spec(3, 3, 16, 16), "second": spec(3, 3, 16, 16), "time": spec(32, 16)}
_DIFFUSION: Final = {
    "time": spec(32, 32),
    "stem": spec(3, 3, 3, 16),
    "blocks": [_RESIDUAL] * 2,
    "out": spec(3, 3, 16, 3),
}


def adapted(x: Any, w: Any, narrow: Any) -> Any:
    """A layer with frozen weights and adapters of rank four beside two of them."""
    h = norm(x)
    q, v = [h @ w[name] + (h @ narrow[name][0]) @ narrow[name][1] for name in "qv"]
    scores = jnp.einsum("bqd,bkd->bqk", q, h @ w["k"])
    x = x + jax.nn.softmax(scores) @ v @ w["o"]
    return x + made_again(wide)(norm(x), w)


def adapters_step(frozen: Any, adapters: Any, tokens: Any) -> Any:
    """A step of training adapters of a model that stays as it is."""

    def loss(own: Any) -> Any:
        x = frozen["words"][tokens[:, :-1]]
        for w, narrow in zip(frozen["layers"], own, strict=True):
            x = made_again(adapted)(x, w, narrow)
        return entropy(x @ frozen["words"].T, tokens[:, 1:])

    value, gradient = jax.value_and_grad(loss)(adapters)
    return descend(adapters, gradient), value


_FROZEN: Final = {"words": spec(96, 32), "layers": [_LAYER] * 3}
_ADAPTERS: Final = [{name: (spec(32, 4), spec(4, 32)) for name in "qv"}] * 3


def kept_step(params: Any, x: Any, mask: Any, y: Any) -> Any:
    """A step of training whose layers are checkpoints already, which save their products."""
    kept = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    own = jax.checkpoint(lambda x, w: layer(x, w, mask[:, None, None]), policy=kept)

    def loss(p: Any) -> Any:
        h = x
        for w in p:
            h = own(h, w)
        return (((h - y) ** 2) * mask[..., None]).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    return descend(params, gradient), value


def parts_step(params: Any, xs: Any, ys: Any) -> Any:
    """A step of training whose gradients are added up over parts of the batch."""

    def part(total: Any, given: Any) -> Any:
        def loss(p: Any) -> Any:
            h = given[0]
            for w in p:
                h = h + made_again(wide)(norm(h), w)
            return ((h - given[1]) ** 2).mean()

        value, gradient = jax.value_and_grad(loss)(params)
        return jax.tree.map(jnp.add, total, gradient), value

    total, values = lax.scan(part, jax.tree.map(jnp.zeros_like, params), (xs, ys))
    return descend(params, jax.tree.map(lambda x: x / len(xs), total)), values.mean()


def evaluation(params: Any, images: Any, labels: Any) -> Any:
    """What a convolutional network makes of a batch, in several results."""
    x = jax.nn.relu(convolve(images, params["stem"]))
    x = jax.nn.relu(convolve(x, params["next"]))
    features = x.mean((1, 2))
    logits = features @ params["head"]
    found = logits.argmax(-1)
    return {
        "loss": entropy(logits, labels),
        "right": (found == labels).sum(),
        "near": (lax.top_k(logits, 5)[1] == labels[:, None]).any(-1).sum(),
        "confused": jnp.zeros((10, 10), jnp.int32).at[labels, found].add(1),
        "features": features,
    }


_EVALUATION: Final = {"stem": spec(3, 3, 3, 16), "next": spec(3, 3, 16, 32), "head": spec(32, 10)}


def models(batch: int) -> dict[str, Program]:
    """Return the programs for so many examples, by name."""
    labels = spec(batch, dtype=np.int32)
    images = spec(batch, 24, 24, 3)
    small = spec(batch, 16, 16, 3)
    rows = spec(16 * batch, 32)
    ends = (spec(96 * batch, dtype=np.int32),) * 2
    played = spec(32, batch)
    sequence = spec(batch, 24, 32)
    masked = (_MASKED, spec(batch, 32, dtype=np.int32), labels, labels)
    graph = (_GRAPH, spec(32 * batch, 16), spec(96 * batch, 8), ends, spec(32 * batch, 4))
    seen, done = spec(32, batch, 24), spec(32, batch, dtype=np.int32)
    return {
        "class token": (adam_step, (_CLASSIFY, _CLASSIFY, _CLASSIFY, images, labels)),
        "experts": (experts_step, ([_EXPERTS] * 2, rows, rows)),
        "masked": (masked_step, masked),
        "graph": (graph_step, graph),
        "policy": (policy_step, (_POLICY, seen, done, played, played)),
        "diffusion": (diffusion_step, (_DIFFUSION, _DIFFUSION, small, spec(batch), small)),
        "adapters": (adapters_step, (_FROZEN, _ADAPTERS, spec(batch, 25, dtype=np.int32))),
        "checkpointed": (
            kept_step,
            ([_LAYER] * 3, sequence, spec(batch, 24, dtype=np.bool_), sequence),
        ),
        "parts": (parts_step, ([_WIDE] * 3, spec(4, 8 * batch, 32), spec(4, 8 * batch, 32))),
        "evaluation": (evaluation, (_EVALUATION, images, labels)),
    }
