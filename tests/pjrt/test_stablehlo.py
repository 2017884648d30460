"""HLO of StableHLO: converted once, and the same from what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.files.object_cache import ObjectCache
from lowtide.frontend import stablehlo_library
from lowtide.host_calls.functions import TARGET
from lowtide.pjrt import stablehlo
from lowtide.pjrt.stablehlo import kept_hlo_of


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The programs that were converted, each to its own bytes in capitals."""
    found: list[bytes] = []

    def convert(code: bytes) -> bytes:
        found.append(code)
        return code.upper()

    monkeypatch.setattr(stablehlo_library, "hlo_of", convert)
    return found


def test_a_program_is_converted_once(tmp_path: Path, converted: list[bytes]) -> None:
    pytest.importorskip("jaxlib")
    for _ in range(3):
        cache = ObjectCache(tmp_path / "hlo")
        assert [kept_hlo_of(x, cache) for x in (b"one", b"other")] == [b"ONE", b"OTHER"]
    assert converted == [b"one", b"other"]


def test_what_calls_python_or_is_large_is_not_kept(
    tmp_path: Path, converted: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jaxlib")
    cache = ObjectCache(tmp_path / "hlo")
    monkeypatch.setattr(stablehlo, "MOST_BYTES", 100)
    for code in (f"call {TARGET} 7".encode(), b"x" * 101):
        assert [kept_hlo_of(code, cache) for _ in range(2)] == [code.upper()] * 2
    assert len(converted) == 4
    assert not (tmp_path / "hlo").exists()


def test_kept_bytes_of_others_are_not_read(tmp_path: Path, converted: list[bytes]) -> None:
    pytest.importorskip("jaxlib")
    cache = ObjectCache(tmp_path / "hlo")
    kept_hlo_of(b"one", cache)
    (path,) = (tmp_path / "hlo").glob("*/*")
    path.chmod(0o666)
    with pytest.warns(RuntimeWarning, match="not used as a cache"):
        assert kept_hlo_of(b"one", cache) == b"ONE"
    assert len(converted) == 2
