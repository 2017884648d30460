"""Modules from files of every kind, and errors that say what is wrong with a file."""

import gzip
import io
import lzma
import os
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lowtide.frontend.compressed import read_bytes
from lowtide.frontend.files import read, read_input
from lowtide.frontend.hlo_proto import (
    write_hlo_module_proto,
    write_hlo_module_with_config,
    write_hlo_proto,
)
from lowtide.frontend.hlo_proto.literals import write_literal
from lowtide.frontend.hlo_proto.messages import new_message, serialize
from lowtide.frontend.hlo_proto.shapes import ShapeWriter
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.frontend.tflite.model import read_tflite
from lowtide.ir import HloProtoError, HloTextError, InputError, Literal
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import array_literal
from lowtide.ir.shape import array_shape, tuple_shape

TEXT = """HloModule small, entry_computation_layout={(f32[3]{0}, (s32[]))->f32[3]{0}}

ENTRY %main (p: f32[3], q: (s32[])) -> f32[3] {
  %p = f32[3]{0} parameter(0)
  %q = (s32[]) parameter(1)
  ROOT %n = f32[3]{0} negate(%p)
}

"""


def proto() -> bytes:
    return write_hlo_module_proto(parse_hlo(TEXT))


def snapshot() -> bytes:
    message = new_message("HloSnapshot")
    message.hlo.hlo_module.ParseFromString(proto())
    first = array_literal(array_shape(ElementType.F32, (3,)), np.array([1, 2, 3], np.float32))
    scalar = array_literal(array_shape(ElementType.S32), np.array(7, np.int32))
    for literal in (first, Literal(tuple_shape([scalar.shape]), (scalar,))):
        write_literal(literal, message.arguments.add(), ShapeWriter())
    return serialize(message)


def config_proto() -> bytes:
    return write_hlo_module_with_config(parse_hlo(TEXT))


KINDS = {
    "m.hlo": TEXT.encode(),
    "m.txt": TEXT.encode(),
    "m.hlo.txt": b"\xef\xbb\xbf" + TEXT.encode(),
    "m.windows.txt": TEXT.replace("\n", "\r\n").encode(),
    "m.hlo.xz": lzma.compress(TEXT.encode()),
    "m.txt.gz": gzip.compress(TEXT.encode(), mtime=0),
    "two_streams.hlo.xz": lzma.compress(TEXT[:50].encode()) + lzma.compress(TEXT[50:].encode()),
    "wrong_suffix.hlo": lzma.compress(TEXT.encode()),
    "m.hlo.pb": proto(),
    "m.pb": write_hlo_proto(parse_hlo(TEXT)),
    "config.pb": config_proto(),
    "snapshot.pb": snapshot(),
    "m.pb.gz": gzip.compress(proto(), mtime=0),
    "no_suffix_text": TEXT.encode(),
    "no_suffix_proto": proto(),
    "no_suffix_compressed": lzma.compress(proto()),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(KINDS[name])
    assert str(read(path)) == str(parse_hlo(TEXT))
    assert str(read(str(path))) == str(parse_hlo(TEXT))


@pytest.mark.parametrize("data", [TEXT.encode(), proto(), gzip.compress(TEXT.encode(), mtime=0)])
def test_standard_input(data, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert str(read("-")) == str(parse_hlo(TEXT))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sizes": {"n": 2}}, "only ONNX models have named dimensions"),
        ({"signature": "f"}, "only SavedModels have signatures"),
        ({"shapes": {"x": (2,)}}, "only ONNX models, SavedModels, .* take shapes"),
    ],
)
def test_what_a_module_does_not_take_is_an_error(given, message, monkeypatch, tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"")
    (tmp_path / "m.hlo").write_text(TEXT)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    paths = ["-", tmp_path / "m.hlo", *([folder] if "sizes" in given else [])]
    for path in paths:
        with pytest.raises(InputError, match=message):
            read(path, **given)


def test_snapshot_arguments_are_leaves(tmp_path):
    path = tmp_path / "s.pb"
    path.write_bytes(snapshot())
    arguments = read_input(path).arguments
    assert [x.tolist() for x in arguments] == [[1, 2, 3], 7]
    assert [x.dtype for x in arguments] == [np.float32, np.int32]
    path.write_bytes(proto())
    assert read_input(path).arguments is None


# -- dump directories --------------------------------------------------------------------------


def named(name: str) -> bytes:
    return TEXT.replace("small", name).encode()


def test_dump_directory_takes_the_last_stage(tmp_path):
    stem = tmp_path / "module_0003.jit_step."
    files = {
        "before_optimizations.txt": named("before"),
        "0001.simplification.after_algsimp.before_dce.txt": named("between"),
        "cpu_after_optimizations.txt": named("after"),
        "cpu_after_optimizations-buffer-assignment.txt": b"BufferAssignment:\n",
        "autotune_results.pb": b"\x08\x01",
        "before_optimizations.dot": b"digraph {}",
    }
    for i, (name, data) in enumerate(files.items()):
        path = Path(f"{stem}{name}")
        path.write_bytes(data)
        os.utime(path, (1000 - i, 1000 - i))
    assert read(tmp_path).name == "after"
    os.unlink(f"{stem}cpu_after_optimizations.txt")
    assert read(tmp_path).name == "between"
    Path(f"{stem}cpu_after_optimizations.hlo.pb").write_bytes(proto())
    found = read_input(tmp_path)
    assert found.module.name == "small"
    assert found.file.endswith("cpu_after_optimizations.hlo.pb")


def test_newest_module_of_a_dump_directory_is_taken_and_the_others_listed(tmp_path):
    for number in range(13):
        path = tmp_path / f"module_{number:04}.jit_f.before_optimizations.txt"
        path.write_bytes(named(f"jit_f{number}"))
        os.utime(path, (number, number))
    found = read_input(tmp_path)
    assert found.module.name == "jit_f12"
    lines = found.others.splitlines()
    assert "other modules" in lines[0]
    assert "module_0011" in lines[1]
    assert "module_0002" in lines[10]
    assert lines[-1].strip() == "and 2 more"


def test_directory_with_one_lonely_protobuf(tmp_path):
    (tmp_path / "saved.pb").write_bytes(proto())
    (tmp_path / "notes.md").write_text("HloModule? no")
    assert read(tmp_path).name == "small"


def test_directory_without_modules(tmp_path):
    (tmp_path / "readme.txt").write_text("nothing here")
    with pytest.raises(InputError, match=r"no module in this directory; expected .*xla_dump_to"):
        read(tmp_path)


# -- what is wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "line", "column", "message"),
    [
        ("a.hlo", b"", 1, 1, "the input is empty"),
        ("a.txt", b" \n\n", 1, 1, "white space"),
        ("a.hlo", b"HloModule m\n\nENTRY \xff e {\n}", 3, 7, "0xff is not UTF-8"),
        ("a.hlo", "HloModule é ".encode() + b"\xe9", 1, 13, "0xe9 is not UTF-8"),
        ("a.hlo", TEXT.replace("negate", "negte").encode(), 6, 23, "did you mean 'negate'"),
    ],
)
def test_bad_text_says_where(name, data, line, column, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(HloTextError, match=message) as error:
        read(path)
    assert (error.value.line, error.value.column) == (line, column)
    assert str(error.value).startswith(f"{path}:{line}:{column}: ")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.hlo.xz", lzma.compress(TEXT.encode())[:60], "the xz data are damaged"),
        ("a.hlo.gz", gzip.compress(TEXT.encode(), mtime=0)[:60], "the gzip data are damaged"),
        ("a.hlo.gz", b"\x1f\x8b" + bytes(40), "the gzip data are damaged"),
        ("a.txt", "HloModule".encode("utf-16"), "UTF-16"),
    ],
)
def test_files_that_are_something_else(name, data, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as error:
        read(path)
    assert error.value.file == str(path)


def _zipped(name):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, "{}")
    return stream.getvalue()


_TENSORS = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ""])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\n", "git lfs pull"),
        (b"\n<!DOCTYPE html><html></html>", "a page of HTML"),
        (struct.pack("<Q", len(_TENSORS)) + _TENSORS + bytes(4), "safetensors.* export the model"),
        (_zipped("m/data.pkl"), "an archive of PyTorch.* export the model"),
        (_zipped("metadata.json"), "a model of Keras.* export the model"),
        (_zipped("in_0.npy"), "an archive of NumPy arrays"),
        (_zipped("other"), "a zip archive"),
        (b"\x80\x04}\x94.", "a pickle of Python.* export the model"),
        (b"GGUF\x03" + bytes(20), "GGUF"),
        (b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5"),
        (b"\x93NUMPY\x01\x00", "an array of NumPy"),
        (b"BufferAssignment:\nallocation 0: size 384\n", "XLA's buffer assignment.*beside it"),
        (b"\nTotal bytes used: 8 (8B)\n", "XLA's list of allocated values"),
        (b'xla_dump_to: "dump"\nxla_dump_hlo_as_text: true\n', "XLA's list of its options"),
        (b"HloLiveRange (max 45):\n  InstructionSequence:\n", "XLA's live ranges"),
        (b"Memory Space: default (color=0)\n", "XLA's report on memory"),
        (b"; ModuleID = 'm'\n", "LLVM IR"),
        (b"\x7fELF\x02\x01\x01" + bytes(20), "machine code"),
    ],
)
def test_what_is_no_model_is_named(suffix, data, message, tmp_path):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as error:
        read(path)
    assert error.value.file == str(path)
    if suffix == ".tflite":
        with pytest.raises(InputError, match=message):
            read_tflite(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x1c\0\0\0TFL3" + bytes(20), r"a TFLite model: rename it to end in \.tflite"),
        (b"\n\x0b\n\x01x\x12\x05Const" + bytes(2), r"of TensorFlow: rename it to end in \.pb"),
        (b"\x08\x08\x3a\x90\x03\n", "ends at byte 405 .* at byte 6, the file is cut off"),
        (b"", "the file is empty"),
    ],
)
def test_other_models_under_the_name_of_onnx(data, message, tmp_path):
    path = tmp_path / "a.onnx"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        read(path)


def test_bad_protobuf(tmp_path):
    path = tmp_path / "m.pb"
    path.write_bytes(proto()[:-7])
    with pytest.raises(HloProtoError, match=str(path)) as named_so:
        read(path)
    assert "neither" not in str(named_so.value)
    path = tmp_path / "blob"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(HloProtoError, match="neither HLO text nor HLO protobuf"):
        read(path)


def test_missing_and_unreadable(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "nope.hlo")
    with pytest.raises(InputError, match="empty"):
        read("")
    with pytest.raises(InputError, match="cannot be read"):
        read("a\0b")
    with pytest.raises(InputError, match="cannot be read: not a directory"):
        (tmp_path / "file").write_text("x")
        read(tmp_path / "file" / "m.hlo")


@pytest.mark.parametrize("compress", [lzma.compress, gzip.compress, bytes])
def test_decompression_is_bounded(compress):
    data = compress(bytes(30_000_000))
    with pytest.raises(InputError, match=r"bomb.hlo: .* is larger than 20,000,000 bytes"):
        read_bytes(io.BytesIO(data), "bomb.hlo", 20_000_000)
    assert len(read_bytes(io.BytesIO(data), "bomb.hlo", 30_000_000)) == 30_000_000


def test_the_text_of_a_module_is_no_path():
    with pytest.raises(InputError, match=r"found a text of several lines, HloModule .*parse_hlo"):
        read("HloModule m\nENTRY main { ROOT x = f32[] parameter(0) }\n")
