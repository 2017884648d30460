import pytest

from lowtide.frontend.hlo_text.syntax import SYNTAX
from lowtide.ir.attributes import Attributes, Collective, CollectivePermute
from lowtide.ir.opcode import COLLECTIVES, ENDS, STARTS, Opcode
from lowtide.ops.definition import UNLIMITED, arity_text
from lowtide.ops.table import FAMILIES, TABLE, describe_table, family_of


def test_every_opcode_has_one_definition_of_itself():
    assert list(TABLE) == list(Opcode)
    assert all(definition.opcode is opcode for opcode, definition in TABLE.items())
    assert sum(len(family.OPERATIONS) for family in FAMILIES) == len(Opcode) == 133


@pytest.mark.parametrize("opcode", Opcode)
def test_a_definition_is_consistent(opcode):
    definition = TABLE[opcode]
    least, most = definition.arity
    assert most is UNLIMITED or 0 <= least <= most
    assert issubclass(definition.attributes, Attributes)
    assert 2 <= len(definition.summary) < 90
    assert bool(definition.calls) == definition.call_count_fits(len(definition.calls) or 1)
    if definition.commutative:
        assert definition.elementwise
        assert definition.arity == (2, 2)
    for operand, _ in definition.in_place:
        assert definition.operand_count_fits(max(least, operand + 1))


def test_text_may_omit_exactly_the_shapes_that_are_not_declared():
    written = {opcode for opcode in Opcode if not SYNTAX[opcode].infers_shape}
    declared = {opcode for opcode in Opcode if TABLE[opcode].declared}
    # XLA infers a shape for broadcast that is hardly ever meant; the parser may refuse to.
    assert written - {Opcode.BROADCAST} == declared


def test_text_and_table_agree_on_fixed_numbers_of_operands():
    for opcode, syntax in [(x, SYNTAX[x]) for x in Opcode]:
        if syntax.arity is not None:
            assert TABLE[opcode].operand_count_fits(syntax.arity), opcode


def test_the_commutative_operations():
    names = {opcode.value for opcode, definition in TABLE.items() if definition.commutative}
    assert names == {"add", "multiply", "mulhi", "maximum", "minimum", "and", "or", "xor"}


def test_groups_of_opcodes_are_those_of_their_names_and_rows():
    assert {x for x in Opcode if x.value.endswith("-start")} == STARTS
    assert {x for x in Opcode if x.value.endswith(("-done", "-update"))} == ENDS
    kinds = (Collective, CollectivePermute)
    assert {x for x in Opcode if TABLE[x].attributes in kinds} == COLLECTIVES


def test_families_are_named_as_their_files():
    assert family_of(Opcode.BROADCAST) == "data movement"
    assert family_of(Opcode.ADD) == "elementwise"


def test_roles_of_called_computations():
    assert TABLE[Opcode.WHILE].calls == ("condition", "body")
    assert TABLE[Opcode.CONDITIONAL].calls == ("branch_computations",)


def test_the_described_table_has_a_row_of_words_per_opcode():
    rows = {row["opcode"]: row for row in describe_table()}
    assert list(rows) == [opcode.value for opcode in Opcode]
    assert rows["dynamic-update-slice"]["flags"] == "in place"
    assert rows["dynamic-update-slice"]["operands"] == "at least 2"
    assert rows["while"]["calls"] == "condition, body"
    assert rows["iota"]["attributes"] == "dimension"
    assert rows["convert"]["shape"] == "declared"


@pytest.mark.parametrize(
    ("arity", "text"),
    [((2, 2), "2"), ((1, 3), "1 to 3"), ((1, None), "at least 1"), ((0, None), "any number")],
)
def test_arities_in_words(arity, text):
    assert arity_text(arity) == text
