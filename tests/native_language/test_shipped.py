"""The machine code that comes with the package is that of the sources, and of no others."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import pytest
from tests.native_language import samples
from tests.native_language.shipped import (
    SEARCHES,
    SEARCHES_FOLDER,
    UNITS,
    UNITS_FOLDER,
    made,
    search_file,
)

from lowtide.files.object_cache import ObjectCache
from lowtide.llvm import objects
from lowtide.llvm.objects import unit_object
from lowtide.llvm.shipped import FAMILIES, shipped_object
from lowtide.llvm.target import AARCH64, Target
from lowtide.native.shipped import family_of, file_name
from lowtide.search.kernels import Kernel, machine

MADE_BY = (22, 1)
"""The version of LLVM that the files were made with; another may choose other instructions."""

ANEW = "run `python -m tests.native_language.shipped --write`"


def test_each_unit_has_a_file_of_its_sources_and_there_are_no_others() -> None:
    expected = {file_name(x.name, family, x.sources) for x in UNITS for family in FAMILIES}
    assert {x.name for x in UNITS_FOLDER.iterdir()} == expected, ANEW


def test_each_search_has_a_file_of_its_sources_and_there_are_no_others() -> None:
    assert {*SEARCHES_FOLDER.iterdir()} == {search_file(x) for x in SEARCHES}, ANEW


def test_the_files_are_what_the_sources_are_compiled_to() -> None:
    if llvm.llvm_version_info[:2] != MADE_BY:
        pytest.skip(f"the files were made with LLVM {MADE_BY}, this is {llvm.llvm_version_info}")
    for path, code in made().items():
        assert path.read_bytes() == code, ANEW


def test_what_is_shipped_is_used_and_nothing_else_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "compiled_unit", lambda *_: pytest.fail("a unit is compiled"))
    for unit in UNITS:
        for family, target in FAMILIES.items():
            code = unit_object(unit, target, ObjectCache(tmp_path))
            name = file_name(unit.name, family, unit.sources)
            assert code == (UNITS_FOLDER / name).read_bytes()
    assert not [*tmp_path.rglob("*.o")]


def _address_anew(kernel: Kernel[..., object]) -> int:
    """Where the code of a kernel is that nothing has called yet."""
    return machine.compiled(Kernel(kernel.python, kernel.name))


@pytest.mark.skipif(
    family_of(llvm.get_process_triple()) != machine.FAMILY, reason="for other processors"
)
def test_searches_that_are_shipped_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "text_of", lambda *_: pytest.fail("a search is compiled"))
    assert 0 not in [_address_anew(x) for x in SEARCHES]


@pytest.mark.parametrize("family", ["x86_64-apple-darwin", "aarch64-linux"])
def test_searches_of_other_processors_are_compiled(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    text_of = machine.text_of

    def told(kernel: Kernel[..., object], triple: str = "") -> str:
        asked.append(kernel.name)
        return text_of(kernel, triple)

    monkeypatch.setattr(machine, "family_of", lambda _: family)
    monkeypatch.setattr(machine, "kept_object", lambda _, make: make())
    monkeypatch.setattr(machine, "text_of", told)
    assert _address_anew(SEARCHES[0])
    assert asked == [SEARCHES[0].name]


@pytest.mark.parametrize("change", [" ", "# more\n"])
def test_no_file_is_used_for_other_sources(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.native import unit as units

    unit, target = UNITS[0], FAMILIES["x86_64-linux"]
    read = units.source_of
    monkeypatch.setattr(units, "source_of", lambda *given: read(*given) + change.encode())
    assert shipped_object(unit, target, unit.sources) is None


def test_no_file_is_used_for_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.runtime.cpu import team

    unit, target = UNITS[0], FAMILIES["x86_64-linux"]
    assert shipped_object(unit, target, unit.sources) is not None
    monkeypatch.setattr(team, "SPINS", team.SPINS + 1)
    assert shipped_object(unit, target, unit.sources) is None


def test_other_units_and_other_processors_have_none() -> None:
    x86 = FAMILIES["x86_64-linux"]
    assert shipped_object(samples.UNIT, x86, samples.UNIT.sources) is None
    other = Target("x86_64-apple-darwin", "x86-64", (), 16)
    for target in (AARCH64, other):
        assert shipped_object(UNITS[0], target, UNITS[0].sources) is None
