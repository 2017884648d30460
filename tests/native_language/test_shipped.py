"""The machine code that comes with the package is that of the sources, and of no others."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import pytest
from tests.native_language import samples
from tests.native_language.shipped import FOLDER, UNITS, made

from lowtide.files.object_cache import ObjectCache
from lowtide.llvm import objects
from lowtide.llvm.objects import unit_object
from lowtide.llvm.shipped import FAMILIES, file_name, shipped_object
from lowtide.llvm.target import AARCH64, Target

MADE_BY = (22, 1)
"""The version of LLVM that the files were made with; another may choose other instructions."""

ANEW = "run `python -m tests.native_language.shipped --write`"


def test_each_unit_has_a_file_of_its_sources_and_there_are_no_others() -> None:
    expected = {file_name(x, family, x.sources) for x in UNITS for family in FAMILIES}
    assert {x.name for x in FOLDER.iterdir()} == expected, ANEW


def test_the_files_are_what_the_sources_are_compiled_to() -> None:
    if llvm.llvm_version_info[:2] != MADE_BY:
        pytest.skip(f"the files were made with LLVM {MADE_BY}, this is {llvm.llvm_version_info}")
    for name, code in made().items():
        assert (FOLDER / name).read_bytes() == code, ANEW


def test_what_is_shipped_is_used_and_nothing_else_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "compiled_unit", lambda *_: pytest.fail("a unit is compiled"))
    for unit in UNITS:
        for family, target in FAMILIES.items():
            code = unit_object(unit, target, ObjectCache(tmp_path))
            assert code == (FOLDER / file_name(unit, family, unit.sources)).read_bytes()
    assert not [*tmp_path.rglob("*.o")]


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
