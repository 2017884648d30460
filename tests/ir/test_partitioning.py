"""Modules for several devices are refused on one, in whichever notation they are sharded."""

import pytest

from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import UnsupportedOpError
from lowtide.ir.partitioning import check_partitioned

SHARDY = """HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes=
    {mesh = #sdy.mesh<["x"=4, "y"=1]>, one = #sdy.mesh<["x"=1]>}}
ENTRY e {
  a = f32[8] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<SHARDING>"}
  ROOT n = f32[8] negate(a)
}
""".replace("=\n    ", "=")


@pytest.mark.parametrize("sharding", ['@mesh, [{\\"x\\"}]', '@mesh, [{?}], unreduced={\\"x\\"}'])
def test_shardy_alone_is_refused(sharding: str) -> None:
    module = parse_hlo(SHARDY.replace("SHARDING", sharding))
    with pytest.raises(UnsupportedOpError, match=r'not partitioned yet: %a has .*"x"'):
        evaluate(module, [[0.0] * 8])


@pytest.mark.parametrize("sharding", ["@mesh, [{}]", '@mesh, [{\\"y\\"}]', '@one, [{\\"x\\", ?}]'])
def test_what_splits_nothing_runs(sharding: str) -> None:
    check_partitioned(parse_hlo(SHARDY.replace("SHARDING", sharding)))


def test_one_partition_runs() -> None:
    text = SHARDY.replace("SHARDING", '@mesh, [{\\"x\\"}]').replace("num_partitions=4, ", "")
    check_partitioned(parse_hlo(text))
