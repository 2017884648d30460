"""Convolutions of 8-bit integers over images of one place, whose step is that of the channels."""

import pytest
from tests.native.comparing import compiled, reference

from lowtide.checking.tolerances import assert_values_close
from lowtide.compiler import PlanOptions
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments

LABELS = (
    "bf0_o0i->bf0",
    "bf0_0io->f0b",
    "b0f_0io->b0f",
    "fb0_oi0->bf0",
    "bf01_oi01->bf01",
    "bf01_01io->b01f",
    "b01f_01io->b01f",
    "b0f1_oi01->bf01",
)


def text_of(labels: str, channels: int, type_: str, image: int) -> str:
    left, result = labels.split("->")
    data, kernel = left.split("_")
    sizes = {"b": 2, "f": channels, "i": channels, "o": 3}

    def shape(dims: str, of: dict[str, int], place: int) -> str:
        return ",".join([str(of.get(x, place)) for x in dims])

    made = shape(result, {"b": 2, "f": 3}, image)
    window = "x".join(["1"] * (len(data) - 2))
    return f"""HloModule m
ENTRY e {{
  x = {type_}[{shape(data, sizes, image)}] parameter(0)
  w = {type_}[{shape(kernel, sizes, 1)}] parameter(1)
  ROOT c = s32[{made}] convolution(x, w), window={{size={window}}}, dim_labels={labels}
}}
"""


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("labels", LABELS)
def test_all_channels_of_one_place_count(labels: str, target: str) -> None:
    for channels in (1, 2, 3, 4, 5, 7, 8, 18, 33):
        for type_ in ("s8", "u8"):
            for image in (1, 2):
                module = parse_hlo(text_of(labels, channels, type_, image))
                arguments = seeded_arguments(module, channels)
                got = compiled(module, 1, target, PlanOptions("input"))(*arguments)
                assert_values_close(got, reference(module, arguments), module.entry.root.shape)
