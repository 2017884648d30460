"""The kernels that tell the driver which parts of a graph run: as Python, and as PTX."""

import subprocess
from pathlib import Path

import pytest

from lowtide.runtime.gpu import cuda_choices
from lowtide.runtime.gpu.assembling import AssemblerError, assembler


@pytest.fixture
def told(monkeypatch):
    """What the driver was told: handles and values."""
    calls = []
    monkeypatch.setattr(cuda_choices, "cudaGraphSetConditional", lambda *given: calls.append(given))
    return calls


@pytest.mark.parametrize(("there", "wanted"), [(0, 0), (0, 1), (1, 0), (1, 1), (255, 1)])
def test_a_byte_that_is_there_as_wanted_sets_the_handle(told, there, wanted) -> None:
    cuda_choices.set_by_byte([there], 7, wanted)
    assert told == [(7, bool(there) == bool(wanted))]


@pytest.mark.parametrize(
    ("there", "taken"), [(0, 0), (1, 1), (2, 2), (3, 2), (-1, 2), (-(2**31), 2), (2**31 - 1, 2)]
)
def test_a_number_out_of_range_chooses_the_last_branch(told, there, taken) -> None:
    for number in range(3):
        cuda_choices.set_by_number([there], number, number, 3)
    assert told == [(number, number == taken) for number in range(3)]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a"])
def test_ptxas_takes_the_kernels(architecture: str, tmp_path: Path) -> None:
    """The function of the device's runtime is left to the driver, so nothing is linked."""
    try:
        ptxas = assembler()
    except AssemblerError as problem:
        pytest.skip(str(problem))
    source = tmp_path / "conditions.ptx"
    source.write_text(cuda_choices.conditions_ptx())
    command = [ptxas, "-c", f"-arch={architecture}", str(source), "-o", str(tmp_path / "found")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
