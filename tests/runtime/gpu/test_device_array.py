"""Results that stay on a device: calls take them, NumPy reads them, their memory is given back."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.codegen.gpu.programs import flat

import lowtide
from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.emulator.device import EmulatedDriver
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import InputError
from lowtide.runtime.gpu.device_array import DeviceArray
from lowtide.runtime.gpu.dlpack import SharedTensor, _held, capsule_of, taken
from lowtide.runtime.gpu.execution import LoadedGpuProgram

STEP = """HloModule step

ENTRY e {
  x = f32[6,5] parameter(0)
  y = f32[6,5] parameter(1)
  s = f32[6,5] add(x, y)
  d = f32[6,5] subtract(x, y)
  n = s32[0] constant({})
  ROOT r = (f32[6,5], f32[6,5], s32[0]) tuple(s, d, n)
}
"""


def loaded(text: str, driver: EmulatedDriver | None = None) -> LoadedGpuProgram:
    return LoadedGpuProgram(
        build(parse_hlo(text), GpuBackend("cuda")).program, driver or EmulatedDriver(3)
    )


def numbers(*sizes: int) -> Any:
    return np.random.default_rng(0).standard_normal(sizes).astype(np.float32)


def test_results_are_arguments() -> None:
    run, x, y = loaded(STEP), numbers(6, 5), numbers(6, 5) * 2
    s, d = x, y
    kept = run(x, y, keep=True)
    for _ in range(5):
        s, d = s + d, s - d
        kept = run(kept[0], kept[1], keep=True)
    s, d = s + d, s - d
    assert all(isinstance(z, DeviceArray) for z in kept)
    assert np.array_equal(np.asarray(kept[0]), s)
    assert np.array_equal(np.asarray(kept[1], np.float64), d.astype(np.float64))
    assert kept[2].shape == (0,) and np.asarray(kept[2]).dtype == np.int32
    mixed = run(kept[0], y)
    assert np.array_equal(mixed[0], s + y)


def test_a_later_call_leaves_them_alone() -> None:
    run, x = loaded(STEP), numbers(6, 5)
    first = run(x, x, keep=True)[0]
    run(3 * x, x)
    assert np.array_equal(np.asarray(first), x + x)


def test_memory_is_given_back() -> None:
    driver = EmulatedDriver()
    run, x = loaded(STEP, driver), numbers(6, 5)
    before = driver.room()[0]
    kept = run(x, x, keep=True)
    assert driver.room()[0] == before - 2 * x.nbytes
    view = np.from_dlpack(kept[0])
    del kept
    gc.collect()
    assert np.array_equal(view, x + x)
    assert driver.room()[0] == before - x.nbytes
    del view
    gc.collect()
    assert driver.room()[0] == before
    last = run(x, x, keep=True)
    run.close()
    driver.close()
    del last
    gc.collect()


def test_arrays_outlive_the_program() -> None:
    driver = EmulatedDriver()
    run, x = loaded(STEP, driver), numbers(6, 5)
    kept = run(x, x, keep=True)
    run.close()
    again = loaded(STEP, driver)
    assert np.array_equal(again(kept[0], x)[0], x + x + x)


def test_arrays_of_another_device_are_copied() -> None:
    x = numbers(6, 5)
    one, other = loaded(STEP), loaded(STEP)
    assert np.array_equal(other(one(x, x, keep=True)[0], x)[0], x + x + x)


def test_layouts() -> None:
    text = """HloModule m, entry_computation_layout={(f32[3,5]{0,1})->f32[3,5]{0,1}}

ENTRY e {
  x = f32[3,5]{0,1} parameter(0)
  ROOT y = f32[3,5]{0,1} negate(x)
}
"""
    driver = EmulatedDriver()
    x = numbers(3, 5)
    run = loaded(text, driver)
    kept = run(x, keep=True)
    assert kept.strides == (4, 12)
    assert np.array_equal(np.asarray(kept), -x)
    assert np.array_equal(np.from_dlpack(kept), -x)
    assert np.array_equal(run(kept), x)
    rows = loaded(text.replace("{0,1}", "{1,0}"), driver)
    with pytest.raises(InputError, match=r"in another order of memory than f32\[3,5\]\{1,0\}"):
        rows(kept)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [("f32[6,5]", r"takes float32\[2, 5\]"), ("s32[2,5]", r"takes float32\[2, 5\], int32\[2, 5\]")],
)
def test_arrays_that_do_not_fit(wrong: str, said: str) -> None:
    one = "HloModule m\n\nENTRY e {{\n  x = {0} parameter(0)\n  ROOT y = {0} add(x, x)\n}}\n"
    driver = EmulatedDriver()
    kept = loaded(one.format(wrong), driver)(
        np.zeros((6, 5) if "6" in wrong else (2, 5), np.float32 if "f" in wrong else np.int32),
        keep=True,
    )
    with pytest.raises(InputError, match=said):
        loaded(one.format("f32[2,5]"), driver)(kept)


def test_only_cuda_has_its_interface() -> None:
    """Addresses of an emulated device are the host's: no library takes them for a card's."""
    x = numbers(6, 5)
    kept = loaded(STEP)(x, x, keep=True)[0]
    assert not hasattr(kept, "__cuda_array_interface__")
    assert kept.__dlpack_device__() == (1, 0)


def test_as_users_call_it() -> None:
    run = lowtide.compile(parse_hlo(STEP), target="cuda:emulated")
    x = numbers(6, 5)
    kept = run(x, x, keep=True)
    assert np.array_equal(flat(run(kept[0], x))[0], 3 * x)
    assert repr(kept[0]) == "<f32[6,5]{1,0} on an emulated device>"


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int8, np.uint16, np.bool_, np.complex64, np.float16]
)
def test_capsules(dtype: Any) -> None:
    values = np.arange(6).astype(dtype).reshape(2, 3)
    held = len(_held)
    shared = SharedTensor(values.ctypes.data, (1, 0), values.dtype, (2, 3), (3, 1))
    capsule = capsule_of(shared, values)
    found = taken(capsule)
    assert (found.shared.dtype, found.shared.shape) == (values.dtype, (2, 3))
    assert found.shared.address == values.ctypes.data
    with pytest.raises(InputError, match="used already"):
        taken(capsule)
    del found, capsule
    gc.collect()
    assert len(_held) == held
    unused = capsule_of(shared, values)
    del unused
    gc.collect()
    assert len(_held) == held


def test_bfloat16_in_a_capsule() -> None:
    values = np.arange(3).astype(ml_dtypes.bfloat16)
    found = taken(
        capsule_of(SharedTensor(values.ctypes.data, (1, 0), values.dtype, (3,), (1,)), values)
    )
    assert found.shared.dtype == values.dtype
    with pytest.raises(InputError, match="DLPack has no type float8_e5m2"):
        eight = np.dtype(ml_dtypes.float8_e5m2)
        capsule_of(SharedTensor(0, (1, 0), eight, (3,), (1,)), values)
