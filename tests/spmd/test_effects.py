"""Calls with effects outside of the program: made by one device on whole arrays, or by each."""

from typing import Any

import numpy as np
import pytest

from lowtide.checking.communication import check_communication
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import as_array
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.host_calls.functions import HostFunction
from lowtide.spmd.partitioner import partition
from lowtide.spmd.shards import cut, joined
from lowtide.verifier import verify

X = np.arange(8, dtype=np.float32)


class DoublingCall:
    """A function that doubles its argument and keeps what it was called with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.held = HostFunction(self._double)

    def _double(self, x: Any) -> tuple[Any]:
        self.seen.append(np.array(x))
        return (x * 2,)

    def text(self, rest: str = "", *, effect: bool = True) -> str:
        """Return the attributes of a custom call of the function."""
        says = ", custom_call_has_side_effect=true" if effect else ""
        return (
            f'custom_call_target="lowtide_python_function"{says}, '
            f"api_version=API_VERSION_TYPED_FFI{rest}, "
            f"backend_config={{number = {self.held.number} : ui64}}"
        )


def results(text: str) -> Any:
    """Return the result of a module for X, on its devices; all its collectives come about."""
    parts = partition(parse_hlo(text))
    verify(parts.module)
    assert not check_communication([parts.module]).faults
    given = cut(X, parts.parameters[0], parts.grid)
    found = [as_array(y) for y in evaluate_on_devices(parts.module, [[tile] for tile in given])]
    return joined(found, parts.results[0], parts.grid, X.shape)


def plain(attributes: str) -> str:
    return f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[8] parameter(0), sharding={{devices=[4]<=[4]}}
  c = (f32[8]) custom-call(x), {attributes}
  y = f32[8] get-tuple-element(c), index=0
  ROOT z = f32[8] add(x, y), sharding={{devices=[4]<=[4]}}
}}
"""


@pytest.mark.parametrize("sharding", ["", ", sharding={maximal device=0}"])
def test_one_device_makes_a_call_on_whole_arrays(sharding: str) -> None:
    call = DoublingCall()
    np.testing.assert_array_equal(results(plain(call.text(sharding))), 3 * X)
    (seen,) = call.seen
    np.testing.assert_array_equal(seen, X)


def test_the_device_is_the_one_that_the_sharding_names() -> None:
    text = str(
        partition(parse_hlo(plain(DoublingCall().text(", sharding={maximal device=2}")))).module
    )
    assert "constant(2)" in text
    other = str(
        partition(parse_hlo(plain(DoublingCall().text(", sharding={maximal device=3}")))).module
    )
    assert "constant(3)" in other


def test_each_device_makes_a_replicated_call() -> None:
    call = DoublingCall()
    np.testing.assert_array_equal(results(plain(call.text(", sharding={replicated}"))), 3 * X)
    assert len(call.seen) == 4
    for seen in call.seen:
        np.testing.assert_array_equal(seen, X)


def test_a_call_without_effects_is_made_by_each_device_on_whole_arrays() -> None:
    call = DoublingCall()
    np.testing.assert_array_equal(results(plain(call.text(effect=False))), 3 * X)
    assert {seen.shape for seen in call.seen} == {(8,)}


def test_shardy_names_the_device_by_a_mesh() -> None:
    call = DoublingCall()
    sharding = (
        ", sharding={replicated}, frontend_attributes={xla.sdy.sharding="
        '"#sdy.sharding_per_value<[<@maximal_mesh_0, [{}]>]>"}'
    )
    text = plain(call.text(sharding)).replace(
        "num_partitions=4",
        'num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>, '
        "maximal_mesh_0 = #sdy.mesh<[], device_ids=[0]>}}",
    )
    text = text.replace(
        "sharding={devices=[4]<=[4]}\n  c",
        'frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}]>"}\n  c',
    )
    np.testing.assert_array_equal(results(text), 3 * X)
    assert len(call.seen) == 1


def test_tokens_order_calls() -> None:
    first, second = DoublingCall(), DoublingCall()
    text = f"""HloModule m, num_partitions=2
ENTRY e {{
  x = f32[8] parameter(0), sharding={{devices=[2]<=[2]}}
  t = token[] after-all()
  c = (token[], f32[8]) custom-call(t, x), {first.text()}
  u = token[] get-tuple-element(c), index=0
  y = f32[8] get-tuple-element(c), index=1
  d = (token[], f32[8]) custom-call(u, y), {second.text()}
  ROOT z = f32[8] get-tuple-element(d), index=1
}}
"""
    np.testing.assert_array_equal(results(text), 4 * X)
    assert [len(call.seen) for call in (first, second)] == [1, 1]


def test_a_call_that_nothing_reads_is_made() -> None:
    call = DoublingCall()
    text = plain(call.text()).replace("add(x, y)", "negate(x)")
    np.testing.assert_array_equal(results(text), -X)
    assert len(call.seen) == 1


def region(attributes: str) -> str:
    sharding = '#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}]>]>'
    axes = '#sdy<manual_axes{\\"x\\"}>'
    return f"""HloModule m, num_partitions=4,
    frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["x"=4]>}}}}
xla.sdy.manual_computation_body {{
  p = f32[2] parameter(0)
  c = (f32[2]) custom-call(p), {attributes}
  ROOT y = f32[2] get-tuple-element(c), index=0
}}
ENTRY e {{
  x = f32[8] parameter(0)
  l = f32[2] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true,
    frontend_attributes={{xla.sdy.in_shardings="{sharding}", xla.sdy.manual_axes="{axes}"}}
  b = f32[2] call(l), to_apply=xla.sdy.manual_computation_body
  ROOT g = f32[8] custom-call(b), custom_call_target="xla.sdy.LocalToGlobalShape",
    custom_call_has_side_effect=true,
    frontend_attributes={{xla.sdy.out_shardings="{sharding}", xla.sdy.manual_axes="{axes}"}}
}}
"""


@pytest.mark.parametrize("effect", [False, True])
def test_each_device_makes_a_call_in_a_manual_region_on_its_tile(effect: bool) -> None:
    call = DoublingCall()
    np.testing.assert_array_equal(results(region(call.text(effect=effect))), 2 * X)
    assert sorted([float(seen[0]) for seen in call.seen]) == [0.0, 2.0, 4.0, 6.0]


BATCHES = """HloModule m, num_partitions=4
ENTRY e {
  x = f32[4,3,3] parameter(0), sharding={devices=[4,1,1]<=[4]}
  ROOT c = (f32[4,3,3]{1,2,0}, s32[4]) custom-call(x), custom_call_target="lapack_spotrf_ffi",
    operand_layout_constraints={f32[4,3,3]{1,2,0}}, api_version=API_VERSION_TYPED_FFI,
    frontend_attributes={num_batch_dims="1"}, backend_config={uplo = 76 : ui8}
}
"""


def test_batches_of_a_custom_call_are_split_and_lie_as_it_says() -> None:
    parts = partition(
        parse_hlo(
            BATCHES.replace(
                "HloModule m", "HloModule m, allow_spmd_sharding_propagation_to_output={true,true}"
            )
        )
    )
    text = str(parts.module)
    assert "(f32[1,3,3]{1,2,0}, s32[1]{0}) custom-call" in text
    assert "operand_layout_constraints={f32[1,3,3]{1,2,0}}" in text
    whole = str(partition(parse_hlo(BATCHES.replace('num_batch_dims="1"', 'a="1"'))).module)
    assert "(f32[4,3,3]{1,2,0}, s32[4]{0}) custom-call" in whole
