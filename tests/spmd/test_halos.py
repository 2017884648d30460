"""Windows along split dimensions: tiles get the rows that they reach into from their neighbours."""

import itertools

import pytest
from tests.spmd.equal_results import ADD_AND_MAX, partitioned_text

from lowtide.spmd.wire import wire_traffic

REDUCERS = (
    ADD_AND_MAX
    + """ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
"""
)


BOTH = """both {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  m = f32[] maximum(a, c)
  s = f32[] add(b, d)
  ROOT t = (f32[], f32[]) tuple(m, s)
}
"""


def module(parameters: str, body: str, devices: int = 4) -> str:
    return f"""HloModule m, num_partitions={devices},
    allow_spmd_sharding_propagation_to_output={{true}}
{REDUCERS}
ENTRY e {{
{parameters}
{body}
}}
"""


X = "  x = f32[2,3,32] parameter(0), sharding={devices=[1,1,4]<=[4]}"
WINDOWS = [
    ("size=3 pad=1_1", 32),
    ("size=3 pad=2_0", 32),
    ("size=3 pad=0_2", 32),
    ("size=1", 32),
    ("size=2 stride=2", 16),
    ("size=3 stride=2 pad=0_1", 16),
    ("size=3 stride=2 pad=1_0", 16),
    ("size=5 stride=4 pad=1_0", 8),
    ("size=3 pad=2_2 rhs_dilate=2", 32),
    ("size=4 pad=2_2 lhs_dilate=2", 64),
    ("size=3 pad=2_1 lhs_dilate=2", 64),
    ("size=5 stride=2 pad=2_2 lhs_dilate=2", 32),
    ("size=3 pad=1_1 rhs_reversal=1", 32),
    ("size=1 stride=2 pad=0_-1", 16),
]


@pytest.mark.parametrize(("window", "size"), WINDOWS)
def test_convolutions(window: str, size: int) -> None:
    length = window.split("size=")[1].split(" ")[0]
    parts = partitioned_text(
        module(
            X + f"\n  k = f32[{length},3,5] parameter(1)",
            f"  ROOT r = f32[2,5,{size}] convolution(x, k), window={{{window}}}, "
            "dim_labels=bf0_0io->bf0",
        )
    )
    sent = wire_traffic(parts.module)
    assert set(sent.collectives) <= {"collective-permute"}, sent
    # At most four rows of six numbers, of four bytes, go each way.
    assert sent.wire_bytes <= 2 * 4 * 6 * 4
    assert str(parts.results[0]) == "{devices=[1,1,4]<=[4]}"


@pytest.mark.parametrize(("window", "size"), [w for w in WINDOWS if "reversal" not in w[0]])
@pytest.mark.parametrize(("reducer", "start"), [("add", 0), ("add", 2), ("max", -1)])
def test_reduced_windows(window: str, size: int, reducer: str, start: int) -> None:
    wide = " ".join(
        part.split("=")[0]
        + "="
        + ("0_0x0_0x" if part.startswith("pad") else "1x1x")
        + part.split("=")[1]
        for part in window.split(" ")
    )
    parts = partitioned_text(
        module(
            X,
            f"  z = f32[] constant({start})\n"
            f"  ROOT r = f32[2,3,{size}] reduce-window(x, z), window={{{wide}}}, "
            f"to_apply={reducer}",
        )
    )
    sent = wire_traffic(parts.module)
    assert set(sent.collectives) <= {"collective-permute"}, sent


def test_two_dimensions_are_exchanged_one_after_the_other() -> None:
    parts = partitioned_text(
        module(
            "  x = f32[1,8,8,2] parameter(0), sharding={devices=[1,2,2,1]<=[4]}\n"
            "  k = f32[3,3,2,3] parameter(1)",
            "  ROOT r = f32[1,8,8,3] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
            "dim_labels=b01f_01io->b01f",
        )
    )
    assert wire_traffic(parts.module).collectives["collective-permute"].count == 4


@pytest.mark.parametrize(
    ("window", "kernel"),
    [("pad=1_1", 32), ("pad=0_0", 32), ("pad=1_0 rhs_dilate=2", 16), ("pad=2_2 stride=2", 32)],
)
def test_gradients_of_kernels(window: str, kernel: int) -> None:
    """The kernel of such a convolution is as long as the array, and split with it."""
    pad = sum(int(x) for x in window.split("pad=")[1].split(" ")[0].split("_"))
    dilation = 2 if "rhs_dilate" in window else 1
    stride = 2 if " stride" in window else 1
    size = (32 + pad - ((kernel - 1) * dilation + 1)) // stride + 1
    parts = partitioned_text(
        module(
            X + f"\n  k = f32[{kernel},3,5] parameter(1), sharding={{devices=[4,1,1]<=[4]}}",
            f"  ROOT r = f32[2,5,{size}] convolution(x, k), window={{size={kernel} {window}}}, "
            "dim_labels=bf0_0io->bf0",
        )
    )
    kinds = set(wire_traffic(parts.module).collectives)
    assert kinds <= {"collective-permute", "all-reduce", "reduce-scatter"}, kinds


def test_a_window_longer_than_the_tiles_moves_the_array() -> None:
    parts = partitioned_text(
        module(
            X,
            "  z = f32[] constant(0)\n  ROOT r = f32[2,3,32] reduce-window(x, z), "
            "window={size=1x1x32 pad=0_0x0_0x31_0}, to_apply=add",
        )
    )
    assert "collective-permute" not in wire_traffic(parts.module).collectives


def test_windows_that_stand_apart_scatter_in_place() -> None:
    parts = partitioned_text(
        module(
            X + "\n  y = f32[2,3,16] parameter(1), sharding={devices=[1,1,4]<=[4]}",
            "  z = f32[] constant(0)\n  ROOT r = f32[2,3,32] select-and-scatter(x, y, z), "
            "window={size=1x1x2 stride=1x1x2}, select=ge, scatter=add",
        )
    )
    assert not wire_traffic(parts.module).collectives


def test_several_arrays_in_one_window() -> None:
    """Nothing is known that could stand beyond the ends of both."""
    text = (
        module(
            X + "\n  y = f32[2,3,32] parameter(1)",
            "  z = f32[] constant(-1)\n  o = f32[] constant(2)\n"
            "  ROOT r = (f32[2,3,32], f32[2,3,32]) reduce-window(x, y, z, o), "
            "window={size=1x1x3 pad=0_0x0_0x1_1}, to_apply=both",
        )
        .replace("ENTRY", BOTH + "ENTRY")
        .replace("to_output={true}", "to_output={true,true}")
    )
    parts = partitioned_text(text)
    assert "collective-permute" not in wire_traffic(parts.module).collectives


@pytest.mark.parametrize(
    ("devices", "size", "pad"), list(itertools.product((2, 3, 6), (12, 18), ("1_1", "2_0")))
)
def test_any_number_of_devices(devices: int, size: int, pad: str) -> None:
    partitioned_text(
        module(
            f"  x = f32[{size},2] parameter(0), sharding={{devices=[{devices},1]<=[{devices}]}}",
            f"  z = f32[] constant(0)\n  ROOT r = f32[{size},2] reduce-window(x, z), "
            f"window={{size=3x1 pad={pad}x0_0}}, to_apply=add",
            devices,
        )
    )
