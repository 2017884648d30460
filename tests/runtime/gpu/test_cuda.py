"""The CUDA driver's calls: held against the package's names, and made on a driver that is played.

Nothing here has met a device.
"""

# ruff: noqa: N802, N815 (the names are the package's)

from __future__ import annotations

import ctypes
import re
from enum import IntEnum
from pathlib import Path
from threading import Thread, get_ident
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from tests.codegen.gpu.programs import flat
from tests.runtime.gpu.played_choices import PlayedChoices, Setting
from tests.runtime.gpu.test_loops import ASKED, CHOICES, LOOP, argument, compiled, is_right

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.client.gpu import compile_for_device
from lowtide.codegen.gpu import warpgroup_shapes
from lowtide.emulator.running import HostKernels
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import InputError
from lowtide.ir.thunk import GridLaunch
from lowtide.options import Options
from lowtide.runtime.gpu import cuda, cuda_calls
from lowtide.runtime.gpu.assembling import AssemblerError, Cubin
from lowtide.runtime.gpu.cuda import CudaDriver
from lowtide.runtime.gpu.cuda_calls import architecture_for, runs_on
from lowtide.runtime.gpu.dlpack import SharedTensor, capsule_of
from lowtide.runtime.gpu.driver import DeviceMemoryError, DriverError
from lowtide.runtime.gpu.execution import LoadedGpuProgram
from lowtide.runtime.gpu.program import GpuProgram

MODULE = """HloModule m

ENTRY e {
  x = f32[8,16] parameter(0)
  y = f32[16,8] parameter(1)
  a = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8] parameter(2)
  c = f32[8,8] broadcast(b), dimensions={1}
  ROOT r = f32[8,8] multiply(a, c)
}
"""


class Result(IntEnum):
    SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704
    CUDA_ERROR_LAUNCH_FAILED = 719


class Kinds(IntEnum):
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38
    CU_STREAM_NON_BLOCKING = 1
    CU_EVENT_DEFAULT = 0
    CU_EVENT_DISABLE_TIMING = 2
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class PlayedDriver(PlayedChoices):
    """The functions of the package as they are called, on memory of the host, all done at once.

    Machine code that was `assembled` is the number of a program.
    """

    CUdevice_attribute = CUstream_flags = CUevent_flags = CUstreamCaptureMode = Kinds
    CUfunction_attribute = Kinds

    success = Result.SUCCESS

    def __init__(self, room: int = 1 << 30) -> None:
        super().__init__()
        self.room, self.version = room, 13000
        self.programs: list[GpuProgram] = []
        self.kernels: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        self.memory: dict[int, np.ndarray[Any, Any]] = {}
        self.locked: list[np.ndarray[Any, Any]] = []
        self.launches = 0
        self.fails_at = 0
        self.fails_with = Result.CUDA_ERROR_LAUNCH_FAILED
        self.refuses_code = False
        self.given_back: list[str] = []
        self.graphs = 0
        self.waited_for: list[int] = []
        self.devices, self.has_links = 1, True
        self.held: list[int] = []
        self.reached: list[str] = []
        self.allowed: dict[str, int] = {}
        """By function the bytes of shared memory that its launches may ask for."""

    def CUstream(self, handle: int) -> str:
        self.waited_for.append(handle)
        return "stream 1"

    def assembled(self, program: GpuProgram, _: object = None) -> Cubin:
        """Stand for `GpuProgram.assembled`."""
        self.programs.append(program)
        return Cubin(f"code {len(self.programs) - 1}".encode(), {})

    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return Result.SUCCESS, self.version

    def cuInit(self, flags: int) -> tuple[Any, ...]:
        return (Result.SUCCESS,)

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return Result.SUCCESS, self.devices

    def cuDeviceGet(self, number: int) -> tuple[Any, ...]:
        return Result.SUCCESS, number

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        self.held.append(device)
        return Result.SUCCESS, "context" if device == 0 else f"context {device}"

    def cuDeviceCanAccessPeer(self, device: int, other: int) -> tuple[Any, ...]:
        return Result.SUCCESS, int(self.has_links and device != other)

    def cuCtxEnablePeerAccess(self, context: str, flags: int) -> tuple[Any, ...]:
        assert flags == 0
        if context in self.reached:
            return (Result.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,)
        self.reached.append(context)
        return (Result.SUCCESS,)

    def cuCtxSetCurrent(self, context: str) -> tuple[Any, ...]:
        return (Result.SUCCESS,)

    def cuDeviceGetName(self, size: int, device: int) -> tuple[Any, ...]:
        return Result.SUCCESS, b"Played\0\0"

    def cuDeviceGetAttribute(self, kind: int, device: int) -> tuple[Any, ...]:
        return Result.SUCCESS, {75: 9, 76: 0}.get(kind, 1000)

    def cuModuleLoadData(self, image: int) -> tuple[Any, ...]:
        text = ctypes.string_at(image)
        if b"cudaGraphSetConditional" in text:
            for name, count in (("set_by_byte", 3), ("set_by_number", 4)):
                self.kernels[name], self.counts[name] = Setting(self.handles), count
            return Result.SUCCESS, "module"
        if text.startswith(b"code "):
            if self.refuses_code:
                return (Result.CUDA_ERROR_NO_BINARY_FOR_GPU,)
            program = self.programs[int(text[5:])]
        else:
            assert text.startswith(b"//"), "PTX begins with a comment of LLVM's"
            program = self.programs[-1]
        kernels = HostKernels(program)
        for kernel in program.kernels:
            for launch in kernel.launches:
                self.kernels[launch.function] = kernels
                self.counts[launch.function] = kernel.buffers + 1
        return Result.SUCCESS, "module"

    def cuModuleUnload(self, module: str) -> tuple[Any, ...]:
        self.given_back.append(module)
        return (Result.SUCCESS,)

    cuStreamDestroy = cuEventDestroy = cuModuleUnload

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[Any, ...]:
        return Result.SUCCESS, name.decode()

    def cuFuncSetAttribute(self, function: str, kind: int, value: int) -> tuple[Any, ...]:
        assert kind == Kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.allowed[function] = value
        return (Result.SUCCESS,)

    def cuMemAlloc(self, nbytes: int) -> tuple[Any, ...]:
        if nbytes > self.room:
            return (Result.CUDA_ERROR_OUT_OF_MEMORY,)
        made = np.full(nbytes + 256, 0xFF, np.uint8)
        address = made.ctypes.data + -made.ctypes.data % 256
        self.memory[address] = made
        return Result.SUCCESS, address

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> tuple[Any, ...]:
        assert flags == 0
        self.locked.append(np.full(nbytes, 0xFF, np.uint8))
        return Result.SUCCESS, self.locked[-1].ctypes.data

    def cuMemFreeHost(self, address: int) -> tuple[Any, ...]:
        self.locked = [x for x in self.locked if x.ctypes.data != address]
        return (Result.SUCCESS,)

    def cuMemGetInfo(self) -> tuple[Any, ...]:
        return Result.SUCCESS, self.room, 1 << 30

    def cuMemFree(self, address: int) -> tuple[Any, ...]:
        del self.memory[address]
        return (Result.SUCCESS,)

    def cuStreamCreate(self, flags: int) -> tuple[Any, ...]:
        return Result.SUCCESS, f"stream {flags}"

    def cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        return Result.SUCCESS, f"event {flags}"

    def cuEventRecord(self, event: str, stream: str) -> tuple[Any, ...]:
        assert event in ("event 0", "event 2") and stream == "stream 1"
        return (Result.SUCCESS,)

    def cuEventElapsedTime(self, begin: str, end: str) -> tuple[Any, ...]:
        assert (begin, end) == ("event 0", "event 0"), "others keep no time"
        return Result.SUCCESS, 0.5

    def cuStreamWaitEvent(self, stream: str, event: str, flags: int) -> tuple[Any, ...]:
        assert (event, stream) == ("event 2", "stream 1")
        return (Result.SUCCESS,)

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: str) -> Any:
        ctypes.memmove(target, source, size)
        return (Result.SUCCESS,)

    cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = cuMemcpyHtoDAsync

    def cuLaunchKernel(self, function: str, *given: Any) -> tuple[Any, ...]:
        blocks, y, z, threads, ty, tz, shared, stream, parameters, extra = given
        assert (y, z, ty, tz, stream, extra) == (1, 1, 1, 1, "stream 1", 0)
        assert shared == self.allowed.get(function, 0)
        self.launches += 1
        if self.launches == self.fails_at:
            return (self.fails_with,)
        count = self.counts[function]
        places = (ctypes.c_void_p * count).from_address(parameters)
        addresses = [ctypes.c_uint64.from_address(x or 0).value for x in places]
        work = self.kernels[function], GridLaunch(function, blocks, threads, shared), addresses
        if self.captured is not None:
            self.captured.append(work)
        else:
            work[0].launch(*work[1:])
        return (Result.SUCCESS,)

    def cuStreamBeginCapture(self, stream: str, mode: int) -> tuple[Any, ...]:
        assert (stream, mode) == ("stream 1", Kinds.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        assert self.captured is None
        self.captured = []
        return (Result.SUCCESS,)

    def cuStreamEndCapture(self, stream: str) -> tuple[Any, ...]:
        found, self.captured = self.captured, self.outer.pop() if self.outer else None
        return Result.SUCCESS, found

    def cuGraphInstantiate(self, graph: list[Any], flags: int) -> tuple[Any, ...]:
        assert flags == 0
        return Result.SUCCESS, list(graph)

    def cuGraphDestroy(self, graph: list[Any]) -> tuple[Any, ...]:
        graph.clear()
        return (Result.SUCCESS,)

    cuGraphExecDestroy = cuGraphDestroy

    def cuGraphLaunch(self, graph: list[Any], stream: str) -> tuple[Any, ...]:
        self.graphs += 1
        for kernels, launch, addresses in graph:
            kernels.launch(launch, addresses)
        return (Result.SUCCESS,)

    def cuStreamSynchronize(self, stream: str) -> tuple[Any, ...]:
        return (Result.SUCCESS,)

    def cuDevicePrimaryCtxRelease(self, device: int) -> tuple[Any, ...]:
        self.held.remove(device)
        return (Result.SUCCESS,)


@pytest.fixture
def program() -> GpuProgram:
    return build(parse_hlo(MODULE), GpuBackend("cuda")).program


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedDriver:
    driver = PlayedDriver()
    monkeypatch.setattr(cuda_calls, "_bindings", lambda: driver)
    monkeypatch.setattr(cuda, "assembler", lambda: "ptxas")
    monkeypatch.setattr(GpuProgram, "assembled", lambda *x: driver.assembled(*x))
    return driver


def arguments() -> list[np.ndarray[Any, Any]]:
    draw = np.random.default_rng(1)
    return [draw.standard_normal(x).astype(np.float32) for x in ((8, 16), (16, 8), (8,))]


def test_a_program_runs_by_these_calls(program: GpuProgram, played: PlayedDriver) -> None:
    driver = CudaDriver(None)
    assert driver.name == "Played" and driver.architecture == "sm_90a"
    device = LoadedGpuProgram(program, driver)
    x, y, b = arguments()
    (found,) = flat(device(x, y, b))
    assert np.allclose(found, (x @ y) * b, atol=1e-5)
    assert played.launches == len(program.kernels)
    device.close()
    assert not played.memory
    driver.close()


def test_launches_that_ask_for_shared_memory(
    played: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warpgroup_shapes, "LEAST_TILES", 1)
    entry = MODULE.replace("f32", "bf16").replace("8,16", "128,128").replace("16,8", "128,64")
    entry = entry.replace("8,8", "128,64").replace("bf16[8]", "bf16[64]")
    program = build(parse_hlo(entry), GpuBackend("cuda:sm_90a")).program
    (launch,) = [x for kernel in program.kernels for x in kernel.launches]
    draw = np.random.default_rng(1)
    x, y, b = (draw.integers(-2, 3, x).astype(bfloat16) for x in ((128, 128), (128, 64), (64,)))
    (found,) = flat(LoadedGpuProgram(program, CudaDriver(None))(x, y, b))
    assert played.allowed == {launch.function: launch.shared_bytes}
    assert np.array_equal(found, ((x.astype("f4") @ y.astype("f4")).astype(bfloat16) * b))


def test_later_calls_are_graphs(program: GpuProgram, played: PlayedDriver) -> None:
    device = LoadedGpuProgram(program, CudaDriver(None))
    x, y, b = arguments()
    for scale in range(1, 5):
        (found,) = flat(device(scale * x, y, b))
        assert np.allclose(found, scale * (x @ y) * b, atol=1e-5)
    graphs = 3 if len(program.kernels) > 1 else 0
    assert played.graphs == graphs


def test_what_the_host_decides_by_is_read_into_locked_memory(played: PlayedDriver) -> None:
    driver = CudaDriver(None)
    driver.decides = False
    device = LoadedGpuProgram(compiled(ASKED), driver)
    assert all(is_right(device(argument(), 9), 5) for _ in range(2))
    assert [x.nbytes for x in played.locked] == [64]
    device.close()
    driver.close()
    assert not played.locked


def test_loops_and_branches_by_conditional_nodes(played: PlayedDriver) -> None:
    driver = CudaDriver(None)
    for text in (LOOP.format(condition=ASKED, start=0, claim=""), CHOICES):
        module = parse_hlo(text)
        program = build(module, GpuBackend("cuda")).program
        device = LoadedGpuProgram(program, driver)
        for number in range(-1, 6):
            given = argument(), np.int32(number)
            graphs = played.graphs
            found = flat(device(*given))
            assert played.graphs == graphs + 1 or number < 0, "all of a call is one graph"
            pairs = zip(found, flat(evaluate(parse_hlo(text), given)), strict=True)
            assert all(np.allclose(x, y, atol=1e-5) for x, y in pairs)
    driver.close()
    assert played.given_back.count("module") == 3


@pytest.mark.parametrize(("number", "package"), [(12030, 13000), (13000, 12090)])
def test_older_drivers_and_packages_let_the_host_decide(
    number: int, package: int, played: PlayedDriver
) -> None:
    played.version, played.CUDA_VERSION = number, package
    assert not CudaDriver(None).decides


class Foreign:
    """An array of another library in memory of the device."""

    def __init__(self, driver: CudaDriver, values: np.ndarray[Any, Any], **changed: Any) -> None:
        self.address = driver.allocate(values.nbytes)
        ctypes.memmove(self.address, values.ctypes.data, values.nbytes)
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "typestr": values.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": 7,
        } | changed


def test_arrays_of_the_device(program: GpuProgram, played: PlayedDriver) -> None:
    driver = CudaDriver(None)
    device = LoadedGpuProgram(program, driver)
    x, y, b = arguments()
    found = device(Foreign(driver, x), y, b, keep=True)
    assert played.waited_for == [7]
    assert found.__dlpack_device__() == (2, 0)
    interface = found.__cuda_array_interface__
    assert interface["shape"] == (8, 8) and interface["typestr"] == "<f4"
    assert interface["data"] == (found.address, False) and interface["strides"] == (32, 4)
    assert np.allclose(np.asarray(found), (x @ y) * b, atol=1e-5)
    (again,) = flat(device(Capsule(Foreign(driver, x)), y, b))
    assert played.waited_for == [7, 1], "the stream that DLPack's other side was told"
    assert np.allclose(again, (x @ y) * b, atol=1e-5)
    for wrong, said in (
        (Foreign(driver, x, shape=(16, 8)), r"takes float32\[8, 16\], float32\[16, 8\] was given"),
        (Foreign(driver, x, strides=(4, 32)), "in another order of memory than f32"),
        (Foreign(driver, x, typestr="<i4"), r"int32\[8, 16\] was given"),
        (Capsule(Foreign(driver, x), (2, 1)), "lies on device 1, not 0"),
    ):
        with pytest.raises(InputError, match=said):
            device(wrong, y, b)


def test_arrays_of_other_programs_on_the_device(program: GpuProgram, played: PlayedDriver) -> None:
    """Each program has a driver of its own; their device is one, and nothing goes by the host."""
    x, y, b = arguments()
    first = LoadedGpuProgram(program, CudaDriver(None))(x, y, b, keep=True)
    text = (
        "HloModule n\n\nENTRY e {\n  x = f32[8,8] parameter(0)\n  ROOT r = f32[8,8] negate(x)\n}\n"
    )
    other = LoadedGpuProgram(build(parse_hlo(text), GpuBackend("cuda")).program, CudaDriver(None))
    copies: list[int] = []
    download = played.cuMemcpyDtoHAsync
    played.cuMemcpyDtoHAsync = lambda *given: copies.append(given[2]) or download(*given)
    kept = other(first, keep=True)
    assert not copies
    assert np.allclose(np.asarray(kept), -(x @ y) * b, atol=1e-5)


def test_code_that_a_device_does_not_run_is_refused_first(played: PlayedDriver) -> None:
    """The played device has capability 9.0."""
    module = parse_hlo(MODULE)
    with pytest.raises(DriverError, match=r"Played has .* 9\.0 and does not .* for sm_120; "):
        compile_for_device(module, Options(target="cuda:sm_120"))
    x, y, b = arguments()
    (found,) = flat(compile_for_device(module, Options(target="cuda:sm_90"))(x, y, b))
    assert np.allclose(found, (x @ y) * b, atol=1e-5)


@pytest.mark.parametrize(
    ("architecture", "least"),
    [
        ("sm_80", (8, 0)),
        ("sm_89", (8, 9)),
        ("sm_90", (9, 0)),
        ("sm_100", (10, 0)),
        ("sm_120", (12, 0)),
    ],
)
def test_which_devices_run_code(architecture: str, least: tuple[int, int]) -> None:
    known = [(8, 0), (8, 6), (8, 9), (9, 0), (9, 1), (10, 0), (10, 3), (12, 0), (12, 1)]
    assert [x for x in known if runs_on(architecture, *x)] == [x for x in known if x >= least]
    assert [x for x in known if runs_on("sm_90a", *x)] == [(9, 0)]


class Capsule:
    """An array of another library that has DLPack only."""

    def __init__(self, given: Foreign, device: tuple[int, int] = (2, 0)) -> None:
        self.given, self.device = given, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: int) -> Any:
        assert stream == 1
        of = self.given.__cuda_array_interface__
        shape = of["shape"]
        shared = SharedTensor(
            of["data"][0], self.device, np.dtype(of["typestr"]), shape, (shape[1], 1)
        )
        return capsule_of(shared, self)


def test_errors_of_the_driver_are_one_line(program: GpuProgram, played: PlayedDriver) -> None:
    played.fails_at = 1
    with pytest.raises(DriverError, match=r"^cuLaunchKernel: launch_failed: a kernel fails: "):
        LoadedGpuProgram(program, CudaDriver(None))(*arguments())
    played.launches, played.fails_with = 0, Result.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DriverError, match=r"memory that is not there, \w+ was started last$"):
        LoadedGpuProgram(program, CudaDriver(None))(*arguments())
    with pytest.raises(DriverError, match="no device 1: the driver has 1"):
        CudaDriver(None, 1)
    played.version = 11080
    with pytest.raises(DriverError, match=r"the NVIDIA driver is for CUDA 11\.8, 12\.0 is the old"):
        CudaDriver(None)
    played.cuInit = lambda _: (Named("CUDA_ERROR_NO_DEVICE"),)
    with pytest.raises(DriverError, match=r"that runs: the driver finds no device; --target cuda:"):
        CudaDriver(None)


class Named(int):
    """A result by its name."""

    def __new__(cls, name: str) -> Named:
        made = super().__new__(cls, 100)
        made.name = name
        return made

    name: str


def test_a_device_that_is_too_small(program: GpuProgram, played: PlayedDriver) -> None:
    played.room = 100
    with pytest.raises(DeviceMemoryError, match=r"Played has 100 bytes free of .*: no plan fits$"):
        LoadedGpuProgram(program, CudaDriver(None))


def test_code_that_the_driver_does_not_know(program: GpuProgram, played: PlayedDriver) -> None:
    """Machine code of a newer ptxas, or none at all: the driver assembles the kernels itself."""
    played.refuses_code = True
    x, y, b = arguments()
    (found,) = flat(LoadedGpuProgram(program, CudaDriver(None))(x, y, b))
    assert np.allclose(found, (x @ y) * b, atol=1e-5)


def test_without_ptxas(
    program: GpuProgram, played: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise AssemblerError("there is no ptxas")

    monkeypatch.setattr(cuda, "assembler", missing)
    played.programs.append(program)
    x, y, b = arguments()
    (found,) = flat(LoadedGpuProgram(program, CudaDriver(None))(x, y, b))
    assert np.allclose(found, (x @ y) * b, atol=1e-5)


def test_what_was_made_is_given_back(program: GpuProgram, played: PlayedDriver) -> None:
    driver = CudaDriver(None)
    device = LoadedGpuProgram(program, driver, streams=2)
    device(*arguments())
    device.close()
    driver.close()
    assert played.given_back.count("module") == 1
    assert played.given_back.count("stream 1") == 2
    assert "event 2" in played.given_back


def test_calls_from_another_thread(program: GpuProgram, played: PlayedDriver) -> None:
    """Each thread makes the context its own before it does anything."""
    made: list[int] = []
    played.cuCtxSetCurrent = lambda _: made.append(get_ident()) or (Result.SUCCESS,)
    device = LoadedGpuProgram(program, CudaDriver(None))
    worker = Thread(target=device, args=arguments())
    worker.start()
    worker.join()
    assert len(set(made)) == 2


@pytest.mark.parametrize(
    ("capability", "wanted"),
    [
        ((8, 0), "sm_80"),
        ((8, 7), "sm_86"),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90a"),
        ((10, 3), "sm_100"),
    ],
)
def test_the_architecture_of_a_device(capability: tuple[int, int], wanted: str) -> None:
    assert architecture_for(*capability, "a card") == wanted


def test_a_device_reaches_the_memory_of_others_once(played: PlayedDriver) -> None:
    played.devices = 3
    driver = CudaDriver(None)
    driver.reach(3)
    driver.reach(3)
    assert played.reached == ["context 1", "context 2"]
    driver.close()
    assert not played.held


def test_devices_without_a_link(played: PlayedDriver) -> None:
    played.devices, played.has_links = 2, False
    with pytest.raises(
        DriverError, match="no link to the memory of device 1, which a program of 2"
    ):
        CudaDriver(None).reach(2)


def test_a_device_that_is_too_old() -> None:
    with pytest.raises(DriverError, match=r"a card has compute capability 7\.5; known are sm_80"):
        architecture_for(7, 5, "a card")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", None)
    with pytest.raises(DriverError, match=r"the package cuda-bindings is not there; `pip install"):
        CudaDriver(None)


def test_the_package_has_all_names_that_are_called() -> None:
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    text = "".join([Path(x.__file__).read_text() for x in (cuda, cuda_calls)])
    called = set(re.findall(r'"(cu[A-Z]\w+)"', text))
    assert len(called) > 15
    assert not [x for x in sorted(called) if not hasattr(driver, x)]
    for kinds, name in re.findall(r"self\.calls\.cuda\.(CU\w+_flags)\.(\w+)", text):
        assert hasattr(getattr(driver, kinds), name)


def test_without_a_driver() -> None:
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    try:
        has_driver = int(driver.cuInit(0)[0]) == 0
    except Exception:
        has_driver = False
    if has_driver:
        pytest.skip("there is a driver")
    with pytest.raises(DriverError, match="no NVIDIA driver"):
        CudaDriver(None)
