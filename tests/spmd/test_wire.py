"""The link that a collective needs, and how long it sends."""

from __future__ import annotations

import pytest

from lowtide import parse_hlo
from lowtide.cost.devices import DEVICES
from lowtide.spmd.wire import sending

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
"""


@pytest.mark.parametrize(
    ("operation", "link", "rounds"),
    [
        ("collective-permute(x), source_target_pairs={{0,1},{8,9}}", 0, 1.0),
        ("collective-permute(x), source_target_pairs={{0,1},{7,8}}", 1, 1.0),
        ("all-reduce(x), replica_groups={{0,1},{8,9}}, to_apply=add", 0, 1.0),
        ("all-reduce(x), replica_groups={{0,8},{1,9}}, to_apply=add", 1, 1.0),
        ("all-reduce(x), replica_groups={}, to_apply=add", 1, 2 * 15 / 16),
    ],
)
def test_the_slowest_link_of_all_groups_sends(operation: str, link: int, rounds: float) -> None:
    text = f"HloModule m, num_partitions=16\n{ADD}\nENTRY e {{\n  x = f32[1000] parameter(0)\n"
    module = parse_hlo(f"{text}  ROOT r = f32[1000] {operation}\n}}")
    device = DEVICES["accelerator"]
    assert device.devices_per_host == 8
    number, seconds = sending(module.entry.root, module, device)
    assert number == link
    assert seconds == pytest.approx(device.links[link].seconds(4000 * rounds))


def test_replicas_are_devices_too() -> None:
    text = f"HloModule m, num_partitions=4, replica_count=4\n{ADD}\nENTRY e {{\n"
    text += "  x = f32[1000] parameter(0)\n  ROOT r = f32[1000] all-reduce(x), to_apply=add\n}"
    module = parse_hlo(text)
    assert sending(module.entry.root, module, DEVICES["accelerator"])[0] == 1
