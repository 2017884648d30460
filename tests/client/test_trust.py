"""Stored programs of others, and hostile ones: refused by one line, before anything is read."""

import hashlib
import json
import os
import random
import struct
import subprocess
import sys

import numpy as np
import pytest

import lowtide
from lowtide.client.errors import UntrustedProgramError
from lowtide.client.executable import stored
from lowtide.client.executable.stored import MAGIC
from lowtide.runtime.cpu import program as programs
from lowtide.runtime.cpu.serial import MARK

TEXT = """HloModule sums

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
less { s = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT c = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  y = f32[8] exponential(x)  ROOT r = (s32[], f32[8]) tuple(j, y) }

ENTRY main {
  x = f32[8] parameter(0)
  i = s32[] constant(0)
  t = (s32[], f32[8]) tuple(i, x)
  ROOT r = (s32[], f32[8]) while(t), condition=less, body=step
}
"""

X = np.linspace(-3, -2, 8, dtype=np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache, and the key, of a user."""
    path = tmp_path / "cache"
    monkeypatch.setenv("LOWTIDE_CACHE", str(path))
    return path


@pytest.fixture
def file(folder, tmp_path):
    """A program of that user."""
    path = tmp_path / "sums.exe"
    path.write_bytes(lowtide.compile(lowtide.parse_hlo(TEXT), threads=1).serialize())
    return path


def is_right(executable):
    count, values = executable(X)
    return int(count) == 3 and np.allclose(values, np.exp(np.exp(np.exp(X))))


def rest_of(data):
    """What the checksum covers."""
    return data[len(MAGIC) + 72 :]


def with_sums(rest, signature=bytes(40)):
    """A file whose checksum is right, of whoever knows how files look."""
    return MAGIC + signature + hashlib.sha256(rest).digest() + rest


def test_programs_of_this_user_run_wherever_they_were(file, tmp_path):
    assert is_right(lowtide.deserialize(file))
    moved = tmp_path / "elsewhere"
    moved.write_bytes(file.read_bytes())
    moved.chmod(0o666)
    assert is_right(lowtide.deserialize(moved))
    assert is_right(lowtide.deserialize(file.read_bytes()))


def test_programs_of_others_need_trust(file, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "other"))
    for source in (file, file.read_bytes()):
        with pytest.raises(UntrustedProgramError, match="did not compile it here; --trust"):
            lowtide.deserialize(source)
        assert is_right(lowtide.deserialize(source, trust=True))
    with pytest.raises(lowtide.InputError, match=r"^\S*sums\.exe: is native code"):
        lowtide.deserialize(file)


def test_nothing_of_others_is_read(file, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "other"))

    def read(*_):
        raise AssertionError("what nobody trusts was read")

    monkeypatch.setattr(stored.json, "loads", read)
    monkeypatch.setattr(stored, "deserialize", read)
    with pytest.raises(UntrustedProgramError):
        lowtide.deserialize(file)


def test_a_changed_program_is_told_from_a_damaged_one(file):
    data = file.read_bytes()
    own = data[len(MAGIC) : len(MAGIC) + 40]
    rest = bytearray(rest_of(data))
    rest[-1] ^= 1
    file.write_bytes(with_sums(bytes(rest), own))
    with pytest.raises(UntrustedProgramError, match="was changed after this user compiled it"):
        lowtide.deserialize(file)
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(lowtide.InputError, match="is a damaged executable: its checksum is wrong"):
        lowtide.deserialize(file, trust=True)
    file.write_bytes(with_sums(rest_of(data)))
    with pytest.raises(UntrustedProgramError, match="does not say who compiled it"):
        lowtide.deserialize(file)


def test_without_a_key_programs_are_not_signed_and_need_trust(folder, tmp_path):
    folder.mkdir()
    (folder / "signing.key").write_bytes(b"")
    (folder / "signing.key").chmod(0o600)
    data = lowtide.compile(lowtide.parse_hlo(TEXT), threads=1).serialize()
    with pytest.raises(UntrustedProgramError, match=r"no key .*signing.key: is no key"):
        lowtide.deserialize(data)
    assert is_right(lowtide.deserialize(data, trust=True))


def test_other_versions_and_other_files_say_so(file):
    data = file.read_bytes()
    for version in (b"3", b"12"):
        file.write_bytes(data.replace(MAGIC, b"lowtide executable %b\n" % version, 1))
        with pytest.raises(lowtide.InputError, match=r"version 1?[23], this lowtide reads version"):
            lowtide.deserialize(file, trust=True)
    for other in (b"", b"\x7fELF", b"lowtide executable \n", b"lowtide executable x\n", MAGIC[:-1]):
        file.write_bytes(other)
        with pytest.raises(lowtide.InputError, match="executable"):
            lowtide.deserialize(file, trust=True)


def test_another_processor_is_one_line(file, monkeypatch):
    host = programs.host_target()
    few = type(host)(host.triple, "plain", (), 16)
    monkeypatch.setattr(programs, "host_target", lambda: few)
    with pytest.raises(lowtide.InputError, match=r"needs a processor with .* which plain has not"):
        lowtide.deserialize(file)
    monkeypatch.setattr(programs, "host_target", lambda: type(host)("other-linux", "o", (), 16))
    with pytest.raises(lowtide.InputError, match=r"the program is for .*, this is other-linux"):
        lowtide.deserialize(file)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_whose_file_it_is_stands_in_the_line(file, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "other"))
    os.chown(file, 12345, 12345)
    with pytest.raises(UntrustedProgramError, match=r"\(the file is of user 12345\)"):
        lowtide.deserialize(file)


def test_the_command_line(file, tmp_path):
    environment = {**os.environ, "LOWTIDE_CACHE": str(tmp_path / "other")}
    run = [sys.executable, "-m", "lowtide", "run", str(file)]
    found = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 1 and found.stdout == ""
    assert found.stderr.startswith(f"error: {file}: is native code, which may do anything")
    assert found.stderr.count("\n") == 1
    assert subprocess.run([*run, "--trust"], env=environment, check=False).returncode == 0


# -- hostile files -------------------------------------------------------------------------------


def test_hostile_bytes_are_one_error(file):
    """Cut, changed, repeated and mixed: whatever arrives, an InputError leaves, trusted or not."""
    data, dice = file.read_bytes(), random.Random(0)
    for turn in range(400):
        changed = bytearray(data)
        for _ in range(dice.choice((1, 2, 8))):
            place = dice.randrange(len(changed) if turn % 2 else min(200, len(changed)))
            match dice.randrange(4):
                case 0:
                    changed[place] = dice.randrange(256)
                case 1:
                    del changed[place : place + dice.randrange(1, 64)]
                case 2:
                    changed[place:place] = dice.randbytes(dice.randrange(1, 64))
                case 3:
                    del changed[place:]
            if not changed:
                break
        if bytes(changed) == data:
            continue
        for trust in (False, True):
            try:
                lowtide.deserialize(bytes(changed), trust=trust)
            except lowtide.InputError as error:
                assert "\n" not in str(error)
                continue
            assert trust and rest_of(changed) == rest_of(data), "only the signature differs"


NASTY = [None, -1, 0, 1, 2, 99, 1 << 62, 1 << 70, 0.5, "", "x", [], [[]], {}, True]


def replaced(value, dice):
    """JSON with something else at a place that the dice choose."""
    if isinstance(value, list | dict) and value and dice.random() < 0.9:
        copy = value.copy()
        key = dice.choice(list(copy)) if isinstance(copy, dict) else dice.randrange(len(copy))
        copy[key] = replaced(copy[key], dice)
        return copy
    return dice.choice(NASTY)


def parts_of(data):
    """Header, mark and header of the program, and its blobs behind padding."""
    rest = rest_of(data)
    (length,) = struct.unpack_from("<Q", rest)
    header, inner = json.loads(rest[8 : 8 + length]), rest[8 + length :]
    start = len(MARK) + 36
    (inner_length,) = struct.unpack_from("<Q", inner, start)
    inner_end = start + 8 + inner_length
    return (
        header,
        inner[: len(MARK) + 4],
        json.loads(inner[start + 8 : inner_end]),
        inner[inner_end:],
    )


def joined(header, mark, program, blobs):
    inner = json.dumps(program).encode()
    covered = struct.pack("<Q", len(inner)) + inner + blobs
    outer = json.dumps(header).encode()
    sums = mark + hashlib.sha256(covered).digest() + covered
    return with_sums(struct.pack("<Q", len(outer)) + outer + sums)


def test_hostile_headers_are_one_error(file, monkeypatch):
    """Right checksums over wrong headers, trusted: an InputError, or a program that means it.

    None is linked, since what is trusted may run.
    """
    monkeypatch.setattr("lowtide.client.executable.executable.linked", lambda *_: None)
    header, mark, program, blobs = parts_of(file.read_bytes())
    assert lowtide.deserialize(joined(header, mark, program, blobs), trust=True)
    dice, refused = random.Random(1), 0
    for turn in range(3000):
        rows = (
            [replaced(header, dice), program]
            if turn % 4 == 0
            else [header, replaced(program, dice)]
        )
        try:
            lowtide.deserialize(joined(rows[0], mark, rows[1], blobs), trust=True)
        except lowtide.InputError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 1500


@pytest.mark.parametrize("opening", ["[", '{"text":'])
def test_deep_headers_are_one_error(opening):
    deep = (opening * 100_000).encode()
    with pytest.raises(lowtide.InputError, match="its header cannot be read"):
        lowtide.deserialize(with_sums(struct.pack("<Q", len(deep)) + deep), trust=True)


def test_no_place_lies_outside_of_its_memory(file, monkeypatch):
    monkeypatch.setattr("lowtide.client.executable.executable.linked", lambda *_: None)
    header, mark, program, blobs = parts_of(file.read_bytes())
    count = len(program["interface"][0])

    def places(value):
        if isinstance(value, list):
            if len(value) == 3 and all(type(x) is int for x in value) and value[0] >= 0:
                yield value
            for x in value:
                yield from places(x)

    found = [*places(program["thunks"]), *places(program["interface"][2])]
    assert len(found) > 5
    for place in found:
        before = list(place)
        for changed in (
            [count, *before[1:]],
            [before[0], 1 << 40, before[2]],
            [before[0], before[1], 1 << 40],
        ):
            place[:] = changed
            with pytest.raises(lowtide.InputError, match="a slice"):
                lowtide.deserialize(joined(header, mark, program, blobs), trust=True)
        place[:] = before
