"""The key by which a user's files are known again: made once, private, or none."""

import os
from pathlib import Path

import pytest

from lowtide.files.signing import KEY_BYTES, UNSIGNED, SigningKey, signing_key
from lowtide.files.writing import write_new


def key_file(folder: Path) -> Path:
    return folder / "signing.key"


def test_a_key_is_made_once_and_is_the_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    key = signing_key(folder)
    assert len(key.secret) == KEY_BYTES and not key.obstacle
    assert signing_key(folder) == key
    assert signing_key(tmp_path / "other") != key
    assert key_file(folder).stat().st_mode & 0o777 == 0o600
    assert [x.name for x in folder.iterdir()] == ["signing.key"]


def test_what_a_key_signed_it_knows_again(tmp_path: Path) -> None:
    key, other = signing_key(tmp_path / "a"), signing_key(tmp_path / "b")
    signature = key.signature(b"program")
    assert key.made(signature, b"program")
    assert not key.made(signature, b"programs")
    assert not key.made(signature[:-1] + bytes([signature[-1] ^ 1]), b"program")
    assert not other.made(signature, b"program")
    none = SigningKey(b"", "a reason")
    assert none.signature(b"program") == UNSIGNED
    assert not none.made(UNSIGNED, b"program") and not key.made(UNSIGNED, b"program")
    assert key.secret.hex() not in signature.hex()


@pytest.mark.parametrize(
    ("mode", "words"),
    [(0o640, "chmod 600"), (0o604, "chmod 600"), (0o620, "chmod go-w"), (0o602, "chmod go-w")],
)
def test_a_key_that_others_can_read_or_write_is_none(tmp_path: Path, mode: int, words: str) -> None:
    signing_key(tmp_path)
    key_file(tmp_path).chmod(mode)
    found = signing_key(tmp_path)
    assert not found.secret and words in found.obstacle and str(tmp_path) in found.obstacle


def test_a_folder_that_others_write_to_has_no_key(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    signing_key(folder)
    folder.chmod(0o777)
    assert "others may write to it" in signing_key(folder).obstacle


def test_links_other_sizes_and_impossible_folders(tmp_path: Path) -> None:
    signing_key(tmp_path / "a")
    (tmp_path / "b").mkdir()
    key_file(tmp_path / "b").symlink_to(key_file(tmp_path / "a"))
    assert not signing_key(tmp_path / "b").secret
    key_file(tmp_path / "a").write_bytes(b"short")
    assert "is no key" in signing_key(tmp_path / "a").obstacle
    (tmp_path / "file").write_text("")
    assert "not a directory" in signing_key(tmp_path / "file").obstacle.replace(
        "file exists", "not a directory"
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_key_of_another_user_is_none(tmp_path: Path) -> None:
    signing_key(tmp_path)
    os.chown(key_file(tmp_path), 12345, 12345)
    assert "user 12345 owns it" in signing_key(tmp_path).obstacle


def test_of_two_who_make_a_key_one_wins(tmp_path: Path) -> None:
    write_new(tmp_path / "x", b"first", 0o600)
    write_new(tmp_path / "x", b"second", 0o600)
    assert (tmp_path / "x").read_bytes() == b"first"
    assert [x.name for x in tmp_path.iterdir()] == ["x"]
