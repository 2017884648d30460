import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ops.effects import has_side_effect

TEXT = """HloModule m, num_partitions={partitions}
red {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }}
talk {{ a = token[] parameter(0)
 ROOT r = (f32[4], token[]) infeed(a) }}
outer {{ a = token[] parameter(0)
 ROOT r = (f32[4], token[]) call(a), to_apply=talk }}
ENTRY e {{ p0 = f32[4] parameter(0)
 p1 = token[] parameter(1)
 ROOT r = {right_side}
}}"""


@pytest.mark.parametrize(
    ("right_side", "partitions", "expected"),
    [
        ("f32[4] negate(p0)", 1, False),
        ("(f32[4], token[]) infeed(p1)", 1, True),
        ("(f32[4], token[]) call(p1), to_apply=outer", 1, True),
        ('f32[4] custom-call(p0), custom_call_target="x"', 1, False),
        (
            'f32[4] custom-call(p0), custom_call_target="x", custom_call_has_side_effect=true',
            1,
            True,
        ),
        ("f32[4] all-reduce(p0), to_apply=red", 1, False),
        ("f32[4] all-reduce(p0), channel_id=1, to_apply=red", 1, True),
        ("f32[4] all-reduce(p0), channel_id=1, to_apply=red", 2, False),
        ("f32[4] opt-barrier(p0)", 1, False),
    ],
)
def test_effects(right_side, partitions, expected):
    module = parse_hlo(TEXT.format(right_side=right_side, partitions=partitions))
    assert has_side_effect(module.entry.root) is expected
