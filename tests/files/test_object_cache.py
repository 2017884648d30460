"""The cache of objects: what was put is found, and nothing else ever is."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import HANG_SECONDS

from lowtide.files.object_cache import ALIGNMENT, CHECKSUM_BYTES, SWEEP_EVERY, ObjectCache
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.objects import compile_modules, with_unique_names
from lowtide.llvm.target import host_target

KEY = "ab12cd"


def files(folder: Path) -> list[Path]:
    return sorted(x for x in folder.rglob("*") if x.is_file())


def test_bytes_are_found_again_by_another_cache_of_the_folder(tmp_path: Path) -> None:
    ObjectCache(tmp_path).put(KEY, b"code")
    assert ObjectCache(tmp_path).get(KEY) == b"code"
    assert ObjectCache(tmp_path).get("ab12ce") is None
    assert ObjectCache(None).get(KEY) is None


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 100, None])
def test_a_damaged_file_counts_as_none_and_is_written_again(
    tmp_path: Path, damage: bytes | None
) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(KEY, b"code" * 10)
    (path,) = files(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:20] + b"?" + data[21:] if damage is None else damage)
    assert cache.get(KEY) is None
    assert cache.through(KEY, lambda: b"new") == b"new"
    assert cache.get(KEY) == b"new"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file")
    assert cache.through(KEY, lambda: b"code") == b"code"
    assert cache.get(KEY) is None


def test_the_files_used_least_recently_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, most_bytes=3000)
    for number in range(5):
        cache.put(f"key{number}", bytes(1000 - ALIGNMENT - CHECKSUM_BYTES))
    for number, path in enumerate(files(tmp_path)):
        os.utime(path, ns=(number, number))
    assert cache.get("key0") is not None
    cache.sweep()
    assert [cache.get(f"key{x}") is not None for x in range(5)] == [True, False, False, True, True]


def test_the_folder_stays_about_as_large_as_it_may_be(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, most_bytes=20_000)
    for number in range(3 * SWEEP_EVERY):
        cache.put(f"key{number}", bytes(500))
    assert sum(x.stat().st_size for x in files(tmp_path)) < 20_000 + SWEEP_EVERY * (
        500 + ALIGNMENT + CHECKSUM_BYTES
    )


def test_the_system_is_asked_for_two_folders_and_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(KEY, b"code")
    asked: list[str] = []

    def counted(name: str) -> None:
        ask = getattr(os, name)

        def call(*given: Any, **named: Any) -> Any:
            asked.append(name)
            return ask(*given, **named)

        monkeypatch.setattr(os, name, call)

    for name in ("stat", "lstat", "open", "replace", "unlink"):
        counted(name)
    assert cache.get(KEY) == b"code"
    assert asked == ["stat", "stat", "open"]
    asked.clear()
    cache.put(KEY, b"code")
    assert asked == ["stat", "stat", "open", "replace"]


HAMMER = """
import sys
from pathlib import Path
from lowtide.files.object_cache import ALIGNMENT, CHECKSUM_BYTES, ObjectCache
cache, seed = ObjectCache(Path(sys.argv[1])), int(sys.argv[2])
for turn in range(200):
    key = f"key{(turn * seed) % 7}"
    found = cache.get(key)
    assert found is None or found == key.encode() * 5000
    cache.put(key, key.encode() * 5000)
"""


def test_processes_share_a_folder_and_never_see_half_a_file(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", HAMMER, str(tmp_path), seed] for seed in "235"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen(command, env=environment) for command in commands]
    assert [process.wait(HANG_SECONDS) for process in running] == [0, 0, 0]
    assert not [x for x in files(tmp_path) if x.name.startswith(".new-")]


def module(number: int) -> str:
    fn = Function("f", parameters(p="ptr"))
    fn.store("i64", number, "%p", 8)
    return with_unique_names(module_text([fn]))[0]


def test_modules_get_names_of_their_own_and_equal_ones_the_same() -> None:
    assert module(1) == module(1)
    assert len({module(x).split("@")[1].split("(")[0] for x in range(5)}) == 5


def test_each_distinct_module_is_compiled_once_and_threads_make_no_difference(
    tmp_path: Path,
) -> None:
    texts = [module(x % 4) for x in range(10)]
    seen: list[tuple[int, int]] = []
    target = host_target()
    found = compile_modules(
        texts, target, ObjectCache(tmp_path), 3, lambda *done: seen.append(done)
    )
    assert len(seen) == 4 and seen[-1][1] == 4
    assert found == compile_modules(texts, target, ObjectCache(None), 1)
    assert found[0] == found[4] != found[1]
    assert len(files(tmp_path)) == 4
    seen.clear()
    again = ObjectCache(tmp_path)
    assert compile_modules(texts, target, again, 2, lambda *done: seen.append(done)) == found
    assert seen == []


def test_a_file_under_another_name_is_not_read(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(KEY, b"code")
    (path,) = files(tmp_path)
    path.rename(path.with_name("other"))
    assert cache.get(KEY[:2] + "other") is None
    assert cache.get(KEY) is None


def test_files_and_folders_are_the_users_alone(tmp_path: Path) -> None:
    cache, mask = ObjectCache(tmp_path / "kind"), os.umask(0)
    cache.put(KEY, b"code")
    os.umask(mask)
    (path,) = files(tmp_path)
    modes = [x.stat().st_mode & 0o777 for x in (path, path.parent, path.parent.parent)]
    assert modes[0] == 0o600
    assert not (modes[1] | modes[2]) & 0o022


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_others_may_write_is_refused_with_one_line(
    tmp_path: Path, mode: int, depth: int
) -> None:
    folder = tmp_path / "kind"
    ObjectCache(folder).put(KEY, b"code")
    (path,) = files(tmp_path)
    (path, path.parent, folder)[depth].chmod(mode)
    cache = ObjectCache(folder)
    with pytest.warns(RuntimeWarning, match="others may write to it: chmod go-w") as said:
        assert cache.get(KEY) is None
        assert cache.get(KEY) is None
        cache.put("ab99", b"more")
    assert len(said) == 1
    assert len(files(tmp_path)) == (2 if depth == 0 else 1)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_another_user_owns_is_refused(tmp_path: Path, depth: int) -> None:
    folder = tmp_path / "kind"
    ObjectCache(folder).put(KEY, b"code")
    (path,) = files(tmp_path)
    os.chown((path, path.parent, folder)[depth], 12345, 12345)
    with pytest.warns(RuntimeWarning, match="user 12345 owns it"):
        assert ObjectCache(folder).get(KEY) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "kind")
    cache.put(KEY, b"code")
    (path,) = files(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    """Nothing waits for what nobody writes."""
    cache = ObjectCache(tmp_path / "kind")
    cache.put(KEY, b"code")
    (path,) = files(tmp_path)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert cache.get(KEY) is None and cache.mapped(KEY) is None
