"""Meshes as users write them."""

import pytest

from lowtide.ir.errors import InputError
from lowtide.sharding_search.division import Division
from lowtide.sharding_search.mesh import SearchMesh, mesh_of_devices, mesh_of_text


@pytest.mark.parametrize(
    "text, names, sizes",
    [
        ("4x2", ("x", "y"), (4, 2)),
        ("4X2", ("x", "y"), (4, 2)),
        ("8", ("x",), (8,)),
        ("data=4,model=2", ("data", "model"), (4, 2)),
        ("data=4, model=1, expert=2", ("data", "expert"), (4, 2)),
        ("1x6", ("y",), (6,)),
    ],
)
def test_forms_of_a_mesh(text, names, sizes):
    assert mesh_of_text(text) == SearchMesh(names, sizes)


@pytest.mark.parametrize(
    "text",
    [
        *("", "4x", "x4", "4,2", "4x-2", "4*2", "data=4,2", "a=2,a=4", "x=0,y=4", "1x1", "0x4"),
        *("9999999", "2x2x2x2x2x2x2", "999999x999999"),
    ],
)
def test_other_texts_are_one_error(text):
    with pytest.raises(InputError) as error:
        mesh_of_text(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "count, sizes",
    [(2, (2,)), (8, (2, 2, 2)), (6, (3, 2)), (7, (7,)), (16, (4, 2, 2)), (64, (4, 4, 4))],
)
def test_devices_are_cut_in_few_axes(count, sizes):
    assert mesh_of_devices(count) == SearchMesh(tuple("xyz"[: len(sizes)]), sizes, is_free=True)


@pytest.mark.parametrize("count", [0, 1, 1 << 17])
def test_too_few_and_too_many_devices(count):
    with pytest.raises(InputError, match="2 to 65,536 devices"):
        mesh_of_devices(count)


def test_axes_that_always_stand_together_are_one():
    mesh = mesh_of_devices(8)
    both = Division((((0, 1), (2,)), ((2,), ())))
    named = both.named(mesh)
    assert (named.names, named.sizes) == (("x", "y"), (4, 2))
    assert named.specs(both.leaves[0]) == (("x",), ("y",))
    apart = Division((((0, 1), (2,)), ((0,), ())))
    assert apart.named(mesh).sizes == (2, 2, 2)
    assert apart.named(mesh).specs(apart.leaves[0]) == (("x", "y"), ("z",))


def test_axes_of_a_given_mesh_stay_as_they_are():
    mesh = mesh_of_text("data=4,model=2")
    division = Division((((0, 1), ()),))
    assert division.named(mesh).names == ("data", "model")
    assert division.named(mesh).specs(division.leaves[0]) == (("data", "model"), ())


def test_an_axis_splits_an_array_once_and_only_what_it_divides():
    mesh = mesh_of_text("4x2")
    whole = Division((((), ()),))
    once = whole.given(mesh, [(8, 12)], (0, 0), 0)
    assert once.leaves == (((0,), ()),)
    assert once.given(mesh, [(8, 12)], (0, 1), 0) is once
    assert once.given(mesh, [(4, 12)], (0, 0), 1) is once
    assert once.given(mesh, [(8, 12)], (0, 0), 1).leaves == (((0, 1), ()),)
    assert once.without(0, 0) == whole
