import pytest
from tests.counting import lines_run
from tests.support import CORPUS, EXAMPLES, needs_shared, read_text

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.ir.clone import CloneMap, clone_computation, clone_module
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.metadata import Metadata
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.verifier import verify

TEXT = """\
HloModule step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, \
buffer_donor={ (1, {}) }, replica_count=2, frontend_attributes={k="v"}

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%scale (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %two = f32[8]{0} constant({1, 2, 3, 4, 5, 6, 7, 8})
  %zero = f32[] constant(0)
  %total = f32[] reduce(%p, %zero), dimensions={0}, to_apply=%sum
  %spread = f32[8]{0} broadcast(%total), dimensions={}
  %mixed = f32[8]{0} add(%two, %spread)
  ROOT %scaled = f32[8]{0} multiply(%p, %mixed), metadata={op_name="scale" stack_frame_id=1}
}, execution_thread="main"

ENTRY %main (a: f32[8], b: f32[8]) -> (f32[8], f32[8]) {
  %a = f32[8]{0} parameter(0), sharding={replicated}
  %b = f32[8]{0} parameter(1)
  %late = f32[8]{0} negate(%b), backend_config={"x":1}
  %call = f32[8]{0} call(%a), to_apply=%scale, control-predecessors={%late}
  %again = f32[8]{0} call(%call), to_apply=%scale, metadata={stack_frame_id=1}
  ROOT %out = (f32[8]{0}, f32[8]{0}) tuple(%again, %late)
}
"""


def state(module: Module):
    """All that a copy has to keep, other objects named: also what the text does not show."""
    fields = {
        name: getattr(module, name)
        for name in Module.__slots__
        if name not in ("_entry", "computations", "computation_names", "instruction_names")
        and name != "schedule"
    }
    computations = [
        (key, c.name, c.id, c.version, c._next_id, c.execution_thread, c.root.name, rows(c))
        for key, c in module.computations.items()
    ]
    return fields, computations, module.entry.name, to_text(module, COMPLETE)


def rows(computation: Computation):
    def names(instructions):
        return [x.name for x in instructions]

    return [
        (
            *(key, x.name, x.id, x.position, x.opcode, x.shape, x.attributes, x.annotations),
            *(names(x.operands), names(x.users), names(x.called_computations)),
            *(names(x.control_predecessors), names(x.control_successors), x.raw_metadata),
        )
        for key, x in computation.instructions.items()
    ] + [names(computation.parameters)]


def objects(module: Module):
    found = set()
    for computation in module.computations.values():
        found.add(computation)
        for x in computation.instructions.values():
            found |= {x, *x.operands, *x.users, *x.called_computations, x.parent}
            found |= {*x.control_predecessors, *x.control_successors}
        found |= {*computation.parameters, computation.root}
    if module.schedule is not None:
        for computation, order in module.schedule.sequences.items():
            found |= {computation, *order}
    return found


def test_a_clone_is_equal_and_shares_nothing_that_changes():
    module = parse_hlo(TEXT)
    module.entry.instructions["a"].set_metadata(Metadata(op_name="a"))
    mapping = CloneMap()
    copy = clone_module(module, mapping)
    verify(copy)
    assert state(copy) == state(module)
    assert not objects(copy) & objects(module)
    assert {c.module for c in objects(copy) if isinstance(c, Computation)} == {copy}
    assert copy.schedule.sequence(copy.entry)[0].name == "a"
    assert {x.name: y.name for x, y in mapping.instructions.items()} == {
        x.name: x.name for x in mapping.instructions
    }


def test_a_clone_changes_alone_and_names_go_on_the_same():
    module = parse_hlo(TEXT)
    module.schedule = None
    copy = clone_module(module)
    before = to_text(module, COMPLETE)
    late, b = copy.entry.instructions["late"], copy.entry.instructions["b"]
    for _ in range(2):
        late.replace_all_uses_with(copy.entry.add(Opcode.ABS, b.shape, (b,), name="late"))
    assert to_text(module, COMPLETE) == before
    names = [
        m.entry.add(Opcode.ABS, module.entry.root.shape, name="late").name
        for m in (copy, clone_module(module))
    ]
    assert names == ["late.3", "late.1"]


def test_operands_created_later_and_rewritten_users_are_kept():
    module = parse_hlo(TEXT)
    module.schedule = None
    entry = module.entry
    a, late = entry.instructions["a"], entry.instructions["late"]
    twice = entry.add(Opcode.ADD, a.shape, (a, a))
    a.replace_all_uses_with(late)
    entry.instructions["again"].replace_operand(0, twice)
    copy = clone_module(module)
    assert state(copy) == state(module)
    verify(copy)


def test_a_computation_is_cloned_into_its_own_module():
    module = parse_hlo(TEXT)
    scale = module.computations["scale"]
    shallow = clone_computation(scale, module, "light", keep_callees=True)
    assert shallow.name == "light"
    assert shallow.instructions["total.1"].called_computations == (module.computations["sum"],)
    mapping = CloneMap()
    deep = clone_computation(scale, module, mapping=mapping)
    assert deep.name == "scale.1"
    assert deep.instructions["total.2"].called_computations == (module.computations["sum.1"],)
    assert mapping.instructions[scale.root] is deep.root
    assert clone_computation(scale, module, mapping=mapping) is deep
    names = [x.name for c in module.computations.values() for x in c.instructions.values()]
    assert len(set(names)) == len(names)
    assert [x.id for x in deep.instructions.values()] == list(range(7))
    assert deep.root.metadata.stack_frame_id == 1


def test_a_computation_is_cloned_into_another_module_with_its_frames():
    target, other = parse_hlo(TEXT.replace("a.py", "b.py")), parse_hlo(TEXT)
    target.schedule = None
    mapping = CloneMap()
    clone = clone_computation(other.entry, target, mapping=mapping)
    assert clone.name == "main.1"
    again, scaled = (
        clone.instructions["again.1"],
        mapping.instructions[other.computations["scale"].root],
    )
    for copy in (again, scaled):
        assert (copy.source.file, copy.source.line) == ("a.py", 7)
    assert target.entry.instructions["again"].source.file == "b.py"
    assert len(target.stack_frames.frames) == 2
    clone_computation(parse_hlo(TEXT).entry, target, mapping=mapping)
    with pytest.raises(ValueError, match="does not hold"):
        clone_computation(other.entry, target, keep_callees=True)
    text = to_text(target, COMPLETE)
    assert to_text(parse_hlo(text), COMPLETE) == text


def test_an_incomplete_computation_can_be_cloned():
    module = Module("m")
    computation = module.add_computation("f")
    assert not clone_computation(computation, module).has_root
    assert not clone_module(module).has_entry


def test_long_chains_and_deep_calls_are_cloned_without_recursion():
    lines = [
        "HloModule deep",
        "g0 {",
        "  p = f32[] parameter(0)",
        "  ROOT n = f32[] negate(p)",
        "}",
    ]
    for i in range(1, 1500):
        lines += [
            f"g{i} {{",
            "  p = f32[] parameter(0)",
            f"  ROOT c = f32[] call(p), to_apply=g{i - 1}",
            "}",
        ]
    module = parse_hlo("\n".join(lines))
    copy = Module("copy")
    clone_computation(module.entry, copy)
    assert list(copy.computations) == list(module.computations)


def test_cloning_takes_work_in_proportion():
    work = []
    for count in (2000, 20000):
        lines = ["HloModule chain", "ENTRY e {", "  x0 = f32[] parameter(0)"]
        lines += [f"  x{i} = f32[] add(x{i - 1}, x{i - 1})" for i in range(1, count)]
        module = parse_hlo("\n".join([*lines, "}"]))
        work.append(lines_run(lambda module=module: clone_module(module)))
    assert work[1] < 12 * work[0]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.hlo.xz")), ids=lambda p: p.name)
def test_examples_keep_their_text(path):
    module = parse_hlo(read_text(path))
    assert to_text(clone_module(module), COMPLETE) == to_text(module, COMPLETE)


@pytest.mark.slow
@needs_shared
def test_corpus_keeps_its_text():
    for path in sorted(CORPUS.glob("*.xz")):
        module = parse_hlo(read_text(path))
        assert to_text(clone_module(module), COMPLETE) == to_text(module, COMPLETE)


def test_slots_are_all_copied():
    """A field added to the IR must be copied too: this list is what clone.py knows."""
    assert set(Instruction.__slots__) == {
        "_metadata",
        "annotations",
        "attributes",
        "called_computations",
        "control_predecessors",
        "control_successors",
        "id",
        "name",
        "opcode",
        "operands",
        "parent",
        "position",
        "shape",
        "users",
    }
    assert set(Computation.__slots__) == {
        "_next_id",
        "_root",
        "execution_thread",
        "id",
        "instructions",
        "module",
        "name",
        "kept",  # results of analyses
        "parameters",
        "version",
    }
