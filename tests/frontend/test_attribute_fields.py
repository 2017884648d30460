"""Fields of attribute records: what they say of themselves is all that text and protobuf need."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Final

import pytest
from pytest import MonkeyPatch

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto import (
    computation_reader,
    enums,
    read_hlo_proto,
    write_hlo_module_with_config,
)
from lowtide.frontend.hlo_proto.attribute_reader import read_attributes, record_reader
from lowtide.frontend.hlo_proto.instruction_source import Source
from lowtide.frontend.hlo_proto.messages import field_at, fields_of, message_classes
from lowtide.frontend.hlo_proto.schema import MESSAGES
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.frontend.hlo_text.syntax import SYNTAX, syntax_of
from lowtide.ir import HloProtoError, HloTextError
from lowtide.ir.attribute_fields import Form, Shown, attribute, attribute_fields, attribute_record
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode

RECORDS: Final = [
    x for x in vars(ir).values() if isinstance(x, type) and issubclass(x, ir.Attributes)
]
RECORDS_AS_A_WHOLE: Final = {"Slice", "Domain"}
SIMPLE: Final = {
    Form.BOOLEAN,
    Form.INTEGER,
    Form.NATURAL,
    Form.COUNT,
    Form.DIMENSION,
    Form.INTEGERS,
    Form.SINGLE,
    Form.WORD,
    Form.STRING,
    Form.BYTES,
}
SCHEMA: Final = (
    " probe=536870850:bool probe_offset=536870851:int64 probe_limit=536870852:int64? "
    "probe_count=536870853:int64 probe_dims=536870854:int64* probe_sizes=536870855:int64* "
    "probe_rate=536870856:float probe_mode=536870857:int32 probe_kind=536870858:string "
    "probe_name=536870859:string probe_data=536870860:bytes"
)
"""One new field of protobuf for each field of the record below."""
MODES: Final = ("slow", "fast")


@attribute_record
class Probe(ir.Attributes):
    """A record that nothing but this test knows, with a field of each simple form."""

    lower: bool = attribute(Form.BOOLEAN, default=False, proto="cholesky_options.")
    probe: bool = attribute(Form.BOOLEAN, default=False)
    offset: int = attribute(Form.INTEGER, default=0, text="probe_offset")
    limit: int | None = attribute(Form.NATURAL, default=None, text="probe_limit")
    count: int = attribute(Form.COUNT, default=1, text="probe_count")
    dimension: int = attribute(Form.DIMENSION, default=7, text="probe_dims")
    sizes: tuple[int, ...] = attribute(Form.INTEGERS, default=(), text="probe_sizes")
    rate: float = attribute(Form.SINGLE, default=0.0, text="probe_rate")
    mode: str = attribute(
        Form.WORD, default="slow", text="probe_mode", words=MODES, what="mode", any_case=True
    )
    kind: str = attribute(
        Form.WORD, default="kOne", text="probe_kind", words=("kOne", "kTwo"), what="kind"
    )
    title: str = attribute(Form.STRING, default="", text="probe_name", after="lower")
    data: bytes = attribute(Form.BYTES, default=b"", text="probe_data", shown=Shown.ALWAYS)


@pytest.fixture
def cholesky_has_probe(monkeypatch: MonkeyPatch) -> Iterator[None]:
    """Cholesky with the record of this test, and a schema with its fields."""

    def read(source: Source) -> ir.Attributes:
        is_probe = source.opcode is Opcode.CHOLESKY
        return record_reader(Probe)(source) if is_probe else read_attributes(source)

    def forget() -> None:
        fields_of.cache_clear()
        message_classes.cache_clear()

    monkeypatch.setitem(MESSAGES, "HloInstructionProto", MESSAGES["HloInstructionProto"] + SCHEMA)
    monkeypatch.setattr(enums, "NUMBERED", {**enums.NUMBERED, "probe_mode": {0: "slow", 5: "fast"}})
    forget()
    monkeypatch.setitem(SYNTAX, Opcode.CHOLESKY, syntax_of(Opcode.CHOLESKY, Probe))
    monkeypatch.setattr(computation_reader, "read_attributes", read)
    yield
    monkeypatch.undo()
    forget()


def module_of(attributes: str) -> Module:
    return parse_hlo(
        "HloModule m\n\nENTRY e {\n  p = f32[4,4]{1,0} parameter(0)\n"
        f"  ROOT c = f32[4,4]{{1,0}} cholesky(p){attributes}\n}}\n"
    )


def damaged(change: Callable[[Any], None]) -> bytes:
    """Return a module in protobuf whose cholesky has been changed."""
    data = write_hlo_module_with_config(module_of(""))
    message = message_classes()["HloModuleProtoWithConfig"].FromString(data)
    change(message.hlo_module.computations[0].instructions[1])
    return bytes(message.SerializeToString())


ALL_SET: Final = Probe(True, True, -3, 5, 2, 1, (4, 0), 0.5, "fast", "kTwo", 'a "name"', b"\x00;")


@pytest.mark.usefixtures("cholesky_has_probe")
@pytest.mark.parametrize(
    ("written", "record", "printed"),
    [
        ("", Probe(), ', probe_data=""'),
        (", probe=true", Probe(probe=True), ', probe=true, probe_data=""'),
        (", probe=false", Probe(), ', probe_data=""'),
        (", probe_limit=0", Probe(limit=0), ', probe_limit=0, probe_data=""'),
        (", probe_rate=0.1", Probe(rate=0.10000000149011612), ', probe_rate=0.1, probe_data=""'),
        (", probe_mode=FAST", Probe(mode="fast"), ', probe_mode=fast, probe_data=""'),
        (
            r""", probe_data="\000;", lower=true, probe=true, probe_offset=-3, probe_limit=5,
            probe_count=2, probe_dims={1}, probe_sizes={4,0}, probe_rate=0.5, probe_mode=fast,
            probe_kind=kTwo, probe_name="a \"name\"" """,
            ALL_SET,
            r', lower=true, probe_name="a \"name\"", probe=true, probe_offset=-3, probe_limit=5, '
            r"probe_count=2, probe_dims={1}, probe_sizes={4,0}, probe_rate=0.5, probe_mode=fast, "
            r'probe_kind=kTwo, probe_data="\000;"',
        ),
    ],
)
def test_a_new_field_is_parsed_printed_and_goes_through_protobuf(
    written: str, record: Probe, printed: str
) -> None:
    module = module_of(written)
    assert module.entry.root.attributes == record
    assert f"cholesky(%p){printed}\n" in str(module)
    again = read_hlo_proto(write_hlo_module_with_config(module))
    assert again.entry.root.attributes == record
    assert str(again) == str(module)


@pytest.mark.usefixtures("cholesky_has_probe")
@pytest.mark.parametrize(
    ("written", "message"),
    [
        (", probe=1", "<text>:5:45: expected true or false, found '1'"),
        (", probes=true", "<text>:5:39: cholesky has no attribute 'probes'; did you mean 'probe'?"),
        (", probe_dims={1,2}", "<text>:5:50: expected one dimension in braces, found 2"),
        (", probe_mode=fest", "<text>:5:50: unknown mode 'fest'; did you mean 'fast'?"),
    ],
)
def test_a_bad_value_of_a_new_field_is_an_error_that_shows_the_place(
    written: str, message: str
) -> None:
    with pytest.raises(HloTextError) as caught:
        module_of(written)
    assert str(caught.value).splitlines()[0] == message


@pytest.mark.usefixtures("cholesky_has_probe")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda x: setattr(x, "probe_limit", -1),
            "probe_limit: expected a number from 0, found -1",
        ),
        (
            lambda x: x.probe_sizes.extend([1, -2]),
            "probe_sizes[1]: expected a number from 0, found -2",
        ),
        (lambda x: x.probe_dims.extend([1, 2]), "probe_dims: expected one number, found 2"),
        (
            lambda x: setattr(x, "probe_mode", 3),
            "probe_mode: unknown value 3, expected one of 0, 5",
        ),
        (lambda x: setattr(x, "probe_kind", "kTen"), "probe_kind: unknown kind 'kTen'"),
    ],
)
def test_a_bad_value_of_a_new_field_in_protobuf_is_an_error_with_its_path(
    change: Callable[[Any], None], message: str
) -> None:
    with pytest.raises(HloProtoError) as caught:
        read_hlo_proto(damaged(change))
    assert str(caught.value) == f"hlo_module.computations[0].instructions[1].{message}"


@pytest.mark.usefixtures("cholesky_has_probe")
def test_what_protobuf_leaves_out_is_the_default() -> None:
    def clear(x: Any) -> None:
        for how in attribute_fields(Probe):
            x.ClearField(how.proto.partition(".")[0])

    zero = Probe(dimension=7, count=1, limit=None, mode="slow", kind="kOne")
    assert read_hlo_proto(damaged(clear)).entry.root.attributes == zero == Probe()


# -- the records ---------------------------------------------------------------------------------


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_each_field_says_how_it_is_written_but_of_records_that_are_one_attribute(
    record: type[ir.Attributes],
) -> None:
    if record.__name__ in RECORDS_AS_A_WHOLE:
        with pytest.raises(TypeError, match=r"does not say how it is written"):
            attribute_fields(record)
        return
    names = [how.name for how in attribute_fields(record)]
    assert sorted(names) == sorted(x.name for x in fields(record))
    for how in attribute_fields(record):
        assert bool(how.words) == bool(how.what)
        if how.form in SIMPLE:
            assert field_at(how.proto).name == how.proto.split(".")[-1]


def test_there_is_no_form_that_nothing_has() -> None:
    records = [record for record in RECORDS if record.__name__ not in RECORDS_AS_A_WHOLE]
    used = {how.form for record in records for how in attribute_fields(record)}
    assert used == set(Form)


def test_words_with_numbers_in_protobuf_are_words_of_the_text() -> None:
    records = [record for record in RECORDS if record.__name__ not in RECORDS_AS_A_WHOLE]
    words = {how.proto: how.words for record in records for how in attribute_fields(record)}
    for path, numbers in enums.NUMBERED.items():
        named = {value for value in numbers.values() if isinstance(value, str) and value}
        assert named <= set(words[path]), path


def test_every_simple_form_stands_in_the_record_of_this_test() -> None:
    assert {how.form for how in attribute_fields(Probe)} == SIMPLE


def test_a_field_whose_path_the_schema_lacks_is_an_error_when_its_reader_is_made() -> None:
    @attribute_record
    class Wrong(ir.Attributes):
        flag: bool = attribute(Form.BOOLEAN, default=False, proto="cholesky_options.upper")

    with pytest.raises(ValueError, match=r"no field 'upper' in CholeskyOptions"):
        record_reader(Wrong)


def test_a_field_stands_behind_the_one_that_it_names() -> None:
    names = [how.name for how in attribute_fields(ir.Gather)]
    assert names[2:6] == [
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "index_vector_dim",
    ]
