"""What the tests of the commands share."""

from pathlib import Path

import pytest

from lowtide.cli.main import main


class Lowtide:
    """Runs command lines in this process; the streams are read after each."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: object) -> int:
        """Run `lowtide ARGUMENTS` and return the exit status."""
        status = main([str(x) for x in arguments])
        self.out, self.err = self._capsys.readouterr()
        return status


@pytest.fixture
def lowtide(capsys: pytest.CaptureFixture[str]) -> Lowtide:
    return Lowtide(capsys)


SMALL = """HloModule small, entry_computation_layout={(f32[2,3]{1,0}, bf16[4]{0}, (s32[], pred[2]{0}))->(f32[2,3]{1,0}, bf16[4]{0}, s32[])}

ENTRY main {
  x = f32[2,3]{1,0} parameter(0), metadata={op_name="x"}
  y = bf16[4]{0} parameter(1)
  z = (s32[], pred[2]{0}) parameter(2)
  doubled = f32[2,3]{1,0} add(x, x), metadata={source_file="a/step.py" source_line=3}
  negated = bf16[4]{0} negate(y)
  count = s32[] get-tuple-element(z), index=0
  ROOT result = (f32[2,3]{1,0}, bf16[4]{0}, s32[]) tuple(doubled, negated, count)
}
"""  # noqa: E501


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A module with leaves of several types."""
    path = tmp_path / "small.hlo"
    path.write_text(SMALL)
    return path


def edited(path: Path, old: str, new: str) -> Path:
    """Return a copy of a file in which `old` is replaced."""
    text = path.read_text()
    assert old in text
    copy = path.with_name(f"edited_{path.name}")
    copy.write_text(text.replace(old, new))
    return copy
