"""`jit` for graphics processors, on the emulated device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.ir.errors import LowtideError
from lowtide.runtime.gpu.device_array import DeviceArray

jax = pytest.importorskip("jax")
EMULATED = "cuda:emulated"


def step(x: Any, w: Any) -> Any:
    return {"y": jax.numpy.tanh(x @ w), "s": jax.numpy.sum(x)}


def arguments() -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    return tuple(draw.standard_normal((4, 4)).astype(np.float32) for _ in range(2))


def is_right(found: Any, x: Any, w: Any) -> bool:
    wanted = np.tanh(np.asarray(x) @ np.asarray(w))
    return bool(
        np.allclose(np.asarray(found["y"]), wanted, atol=1e-5)
        and np.allclose(np.asarray(found["s"]), np.asarray(x).sum(), atol=1e-4)
    )


def test_results_are_numpy_arrays_by_default() -> None:
    fast = lowtide.jit(step, target=EMULATED)
    x, w = arguments()
    for _ in range(3):
        found = fast(x, w)
        assert type(found["y"]) is np.ndarray and is_right(found, x, w)
    assert is_right(fast(jax.numpy.asarray(x), w), x, w)
    assert fast.statistics.misses == 1


def test_results_of_jax_lie_where_the_device_wrote_them() -> None:
    fast = lowtide.jit(step, target=EMULATED, output="jax")
    x, w = arguments()
    found = fast(x, w)
    assert isinstance(found["y"], jax.Array) and is_right(found, x, w)
    assert is_right(fast(found["y"], w), found["y"], w)
    weak = lowtide.jit(lambda x: x + 1, target=EMULATED, output="jax")
    assert weak(2).weak_type and int(weak(2)) == 3


def test_results_that_stay_on_the_device_go_in_again() -> None:
    fast = lowtide.jit(step, target=EMULATED, output="device")
    x, w = arguments()
    first = fast(x, w)
    assert isinstance(first["y"], DeviceArray) and is_right(first, x, w)
    second = fast(first["y"], w)
    assert is_right(second, first["y"], w)
    assert fast.statistics.misses == 1, "an array of the device has the type of one of the host"
    other = lowtide.jit(step, target=EMULATED)
    assert is_right(other(first["y"], w), first["y"], w), "the first call may have one, too"


def test_what_is_donated_is_used_up() -> None:
    fast = lowtide.jit(lambda x: x * 2, target=EMULATED, donate_argnums=0)
    x = np.ones((4,), np.float32)
    assert np.array_equal(fast(x), [2, 2, 2, 2]) and np.array_equal(x, [1, 1, 1, 1])
    given = jax.numpy.ones((4,))
    fast(given)
    assert given.is_deleted()


def test_keys_bools_and_nothing() -> None:
    def f(key: Any, x: Any) -> Any:
        return jax.random.split(key)[0], x > 0, x[:0]

    for output in ("numpy", "jax", "device"):
        key, flags, none = lowtide.jit(f, target=EMULATED, output=output)(
            jax.random.key(3), np.arange(-2.0, 2.0, dtype=np.float32)
        )
        assert np.array_equal(
            jax.random.key_data(key), jax.random.key_data(jax.random.split(jax.random.key(3))[0])
        )
        assert np.asarray(flags).tolist() == [False, False, False, True]
        assert np.asarray(none).shape == (0,)


def test_stages() -> None:
    x, w = arguments()
    fast = lowtide.jit(step, target=EMULATED)
    compiled = fast.lower(x, w).compile()
    assert is_right(compiled(x, w), x, w)
    assert compiled.memory["schema"] == "lowtide.memory/1" and "HloModule" in compiled.as_text()
    assert fast.explain(x, w) is not None
    with pytest.raises(LowtideError, match="stored by lowtide compile"):
        compiled.executable.serialize()


def test_what_needs_a_device_is_refused_without_one() -> None:
    with pytest.raises(ValueError, match='output="device" takes the target of a GPU'):
        lowtide.jit(step, output="device")
    with pytest.raises(ValueError, match="did you mean 'device'"):
        lowtide.jit(step, target=EMULATED, output="devise")
