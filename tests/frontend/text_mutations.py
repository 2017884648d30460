"""Recombined HLO texts: attributes, layouts and asynchronous forms put where they are rare.

A mutation works on one line of a text. What it puts there comes from a pool of attributes, headers
and layouts: those that other texts have, and those in the tables below.
"""

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_LINE = re.compile(
    r"^(?P<head>\s*(?:ROOT )?%?[\w.-]+ = )"
    r"(?P<shape>\([^=]*?\) |\w+\[[^=]*?\](?:\{[^ ]*?\})? )?(?P<opcode>[a-z][\w-]*)\((?P<rest>.*)$"
)
_ATTRIBUTE = re.compile(r"([\w-]+)=")
_SHAPE = re.compile(r"\b[a-z]+\d\w*\[[\d,]*\]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')

LAYOUT_EXTRAS = (
    "S(1)", "S(5)", "T(8,128)", "T(2,128)(2,1)", "E(4)", "L(32)", "T(8)S(3)", "SC(0:1)", "M(16)",
    "T(*,8)", "E(2)S(1)", "#(u32)*(u64)",
)  # fmt: skip
STRINGS = (
    r"\303\244", "ä", r"\377", r"\x41", r"\n\t\"", "a b", "", "{", "}", "{}", '{\\"a\\": 1}', "\\'",
    r"\001", "a,b=c", "//", "/*", "\u20ac", r"\\",
)  # fmt: skip
ATTRIBUTES = (
    'frontend_attributes={a="1",b="x y"}', 'frontend_attributes={c={"d":1}}',
    "statistics={visualizing_index=0,stat=33}", "statistics={visualizing_index=1,a=1.5,b=2}",
    'origin={{"x"}}', 'origin={{"x" {0}}}', 'origin={({"a"}, {"b" {1}})}',
    "origin={[synthetic_call]}", 'backend_config={"a":1}', 'backend_config="x"',
    'backend_config="\\303\\244"', "sharding={replicated}", "sharding={maximal device=0}",
    "sharding={devices=[2,1]<=[2]}", "sharding={{replicated},{manual}}", "sharding={manual}",
    "parameter_replication={true}", "parameter_replication={false,true}",
    'metadata={op_name="a" source_file="b.py" source_line=3}', "metadata={}",
    'metadata={op_type="t" op_name="n" stack_frame_id=2}',
    'metadata={op_name="x" scheduling_name="y" deduplicated_name="z" profile_type={1}}',
    "metadata={size_of_generated_code_in_bytes=3 size_of_memory_working_set_in_bytes=5}",
    'metadata={op_name="a" metadata_payload="\\377b"}',
    "result_accuracy={tolerance={atol=0.5,rtol=1e-3,ulps=2}}", "result_accuracy={mode=highest}",
    "output_to_operand_aliasing={{}: (0, {})}", "output_to_operand_aliasing={{0}: (0, {0})}",
    'async_execution_thread="worker"', 'infeed_config="\\200z"', 'outfeed_config="ä"',
    "channel_id=3", "replica_groups={{0,1}}", "replica_groups={}", "replica_groups=[2,2]<=[4]",
    "use_global_device_ids=true", "constrain_layout=true", "is_host_transfer=true",
    "cross_program_prefetch_index=1", "is_composite=true", "indices_are_sorted=true",
    "unique_indices=true", "is_stable=true", "operand_precision={high,highest}",
    "operand_precision={default,default}", "algorithm=dot_tf32_tf32_f32", "feature_group_count=2",
    "batch_group_count=2", "window={size=2x2 pad=1_0x0_1 stride=2x1}", "dim_labels=bf01_oi01->bf01",
    "custom_call_has_side_effect=true", "schedule=SCHEDULE_LATEST", 'custom_call_target="h"',
    "api_version=API_VERSION_TYPED_FFI", "literal=s32[] 1", "padding_type=PADDING_SAME",
    "operand_layout_constraints={f32[2]{0}}", "padding=0_1", 'padding="x"', 'padding="1_2"',
    "dimensions={0}", "dimensions={}", "index=0", "kind=kLoop", "mode=cross_replica",
    "slice_sizes={{1}}", "has_dynamic_root=true", "is_reverse=true", "largest=false", "k=1",
    "direction=LT", "type=TOTALORDER", "fft_length={4}", "epsilon=0.5", "feature_index=0",
    "lower=true", "delta=2", "inferred_dimension=0", "exponent_bits=5", "mantissa_bits=7",
    "convolution_kind=fprop", "sparsity_config={lhs={sparsity=2x4 dimension=1 stride=1}}",
    "control-predecessors={}",
)  # fmt: skip
HEADERS = (
    "is_scheduled=true", "replica_count=2", "num_partitions=2", "alias_passthrough_params=true",
    "input_output_alias={ {}: (0, {}, may-alias) }", "input_output_alias={ {0}: (0, {}) }",
    "buffer_donor={ (0, {}) }", "buffer_donor={ (0, {0}), (1, {}) }",
    'frontend_attributes={a="b"}', 'frontend_attributes={fingerprint="\\303\\244"}',
    'debug_attributes={x="y"}', "allow_spmd_sharding_propagation_to_parameters={true,false}",
    "allow_spmd_sharding_propagation_to_output={true}",
    "allow_spmd_sharding_propagation_to_parameters={false}",
)  # fmt: skip


@dataclass
class Pool:
    """What a mutation may put into a text: texts, attributes by name, attributes of modules."""

    texts: list[str]
    attributes: list[str] = field(default_factory=lambda: list(ATTRIBUTES))
    headers: list[str] = field(default_factory=lambda: list(HEADERS))
    by_name: dict[str, list[str]] = field(default_factory=dict)


def pool_of(texts: Iterable[str]) -> Pool:
    """Return a pool with the texts, and with each of their attributes once."""
    pool = Pool(list(texts))
    seen = dict.fromkeys(pool.attributes)
    for text in pool.texts:
        for line in text.splitlines():
            match = _LINE.match(line)
            if match is not None:
                _, attributes, _ = split_rest(match["rest"])
                seen.update(dict.fromkeys([a for a in attributes if len(a) < 300]))
    pool.attributes = list(seen)
    for attribute in pool.attributes:
        pool.by_name.setdefault(attribute.partition("=")[0], []).append(attribute)
    return pool


def split_rest(rest: str) -> tuple[list[str], list[str], str]:
    """Return operands, attributes and what follows them, of the text behind the opening bracket."""
    operands, position = split_list(rest, 0, ")")
    attributes: list[str] = []
    position += 1
    while True:
        match = re.match(r",\s*(?=[\w-]+=)", rest[position:])
        if match is None:
            return operands, attributes, rest[position:]
        start = position + match.end()
        end = attribute_end(rest, start)
        attributes.append(rest[start:end])
        position = end


def split_list(text: str, start: int, closing: str) -> tuple[list[str], int]:
    """Return the parts of a list separated by commas, and where its closing bracket stands."""
    depth, parts, begin, position = 0, [], start, start
    while position < len(text):
        character = text[position]
        if depth == 0 and character == closing:
            break
        string = _STRING.match(text, position) if character == '"' else None
        if string is not None:
            position = string.end()
            continue
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character == ",":
            parts.append(text[begin:position].strip())
            begin = position + 1
        position += 1
    last = text[begin:position].strip()
    return ([*parts, last] if last else parts), position


def attribute_end(text: str, start: int) -> int:
    """Return where the attribute that begins at `start` ends: a comma outside of all brackets."""
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        string = _STRING.match(text, position) if character == '"' else None
        if string is not None:
            position = string.end()
            continue
        if depth == 0 and character in ",}":
            break
        depth += (character in "([{") - (character in ")]}")
        position += 1
    return position


# -- mutations of the parts of an instruction ----------------------------------------------------


@dataclass
class Line:
    """An instruction of a text in its parts; `shape` is empty where the text leaves it out."""

    head: str
    shape: str
    opcode: str
    operands: list[str]
    attributes: list[str]
    tail: str

    def text(self) -> str:
        parts = [f"{self.opcode}({', '.join(self.operands)})", *self.attributes]
        return f"{self.head}{self.shape}{', '.join(parts)}{self.tail}"


def line_of(text: str) -> Line | None:
    """Return the parts of a line, None where it is not an instruction on one line."""
    match = _LINE.match(text)
    if match is None:
        return None
    operands, attributes, tail = split_rest(match["rest"])
    return Line(match["head"], match["shape"] or "", match["opcode"], operands, attributes, tail)


Change = Callable[[random.Random, Pool, Line], str]


def add_attribute(rng: random.Random, pool: Pool, line: Line) -> str:
    name = rng.choice(list(pool.by_name))
    line.attributes.insert(rng.randrange(len(line.attributes) + 1), rng.choice(pool.by_name[name]))
    return line.text()


def add_generic(rng: random.Random, pool: Pool, line: Line) -> str:
    names = ("frontend_attributes", "statistics", "origin", "backend_config", "sharding",
             "metadata", "parameter_replication", "result_accuracy")  # fmt: skip
    for name in rng.sample(names, rng.randint(1, 4)):
        line.attributes = [a for a in line.attributes if not a.startswith(f"{name}=")]
        line.attributes.append(rng.choice(pool.by_name[name]))
    return line.text()


def drop_attribute(rng: random.Random, pool: Pool, line: Line) -> str:
    if line.attributes:
        line.attributes.pop(rng.randrange(len(line.attributes)))
    return line.text()


def swap_attribute(rng: random.Random, pool: Pool, line: Line) -> str:
    if line.attributes:
        i = rng.randrange(len(line.attributes))
        name = line.attributes[i].partition("=")[0]
        line.attributes[i] = rng.choice(pool.by_name.get(name, [line.attributes[i]]))
    return line.text()


def shuffle_attributes(rng: random.Random, pool: Pool, line: Line) -> str:
    rng.shuffle(line.attributes)
    return line.text()


def drop_shape(rng: random.Random, pool: Pool, line: Line) -> str:
    line.shape = ""
    return line.text()


def shaped_operands(rng: random.Random, pool: Pool, line: Line) -> str:
    """Drop the shapes of operands, or give one that may be wrong."""
    line.operands = [re.sub(r"^.* (?=%?[\w.-]+$)", "", x) for x in line.operands]
    if line.operands and rng.random() < 0.5:
        i = rng.randrange(len(line.operands))
        line.operands[i] = f"{line.shape or 'f32[] '}{line.operands[i]}"
    return line.text()


def change_operands(rng: random.Random, pool: Pool, line: Line) -> str:
    if line.operands and line.opcode not in ("parameter", "constant"):
        i = rng.randrange(len(line.operands))
        other = rng.choice(line.operands)
        choices = (f"{other}#0", f"negate({other})", f"{line.shape}copy({other})", other, "")
        line.operands[i] = rng.choice(choices)
        line.operands = [x for x in line.operands if x]
    return line.text()


def other_layout(rng: random.Random, pool: Pool, line: Line) -> str:
    """Give the first shapes of the line a layout with extras."""
    extras = "".join(rng.sample(LAYOUT_EXTRAS, rng.choice((1, 1, 1, 2))))
    shapes = list(_SHAPE.finditer(line.shape))
    if not shapes:
        return line.text()
    at = rng.choice(shapes)
    rank = 0 if at[0].endswith("[]") else at[0].count(",") + 1
    order = list(range(rank))
    rng.shuffle(order)
    layout = f"{{{','.join(map(str, order))}:{extras}}}"
    rest = re.sub(r"^\{[^}]*\}", "", line.shape[at.end() :])
    line.shape = line.shape[: at.end()] + layout + rest
    return line.text()


def make_asynchronous(rng: random.Random, pool: Pool, line: Line) -> str:
    """Write a start and a done, or all three, instead of the instruction."""
    if line.opcode in ("parameter", "constant") or not line.shape:
        return line.text()
    name = line.head.replace("ROOT", "").strip().removesuffix("=").strip().lstrip("%")
    result = line.shape.strip()
    operands = ", ".join([result] * len(line.operands))
    if all(" " in x for x in line.operands):
        operands = ", ".join([x.rpartition(" ")[0] for x in line.operands])
    contexts = rng.choice(("", ", u32[]", ", s32[], s32[]"))
    shape = f"(({operands}), {result}{contexts})"
    call = ", ".join([f"{line.opcode}-start({', '.join(line.operands)})", *line.attributes])
    lines = [f"  {name}.s = {shape} {call}"]
    last = f"{name}.s"
    if rng.random() < 0.4:
        lines.append(f"  {name}.u = {shape} {line.opcode}-update({last})")
        last = f"{name}.u"
    done = f"{line.head}{result} {line.opcode}-done({last})"
    if rng.random() < 0.3:
        done += f", {rng.choice(pool.attributes)}"
    if rng.random() < 0.3:
        lines[-1] += f", {rng.choice(pool.attributes)}"
    return "\n".join([*lines, done + line.tail])


def change_string(rng: random.Random, pool: Pool, line: Line) -> str:
    text = line.text()
    strings = list(_STRING.finditer(text))
    if not strings:
        return add_generic(rng, pool, line)
    at = rng.choice(strings)
    return text[: at.start() + 1] + rng.choice(STRINGS) + text[at.end() - 1 :]


def change_number(rng: random.Random, pool: Pool, line: Line) -> str:
    for i in rng.sample(range(len(line.attributes)), min(1, len(line.attributes))):
        numbers = list(re.finditer(r"-?\d+", line.attributes[i]))
        if numbers:
            at = rng.choice(numbers)
            new = str(rng.choice((0, 1, 2, -1, 3, 7, 2**31, 10**6)))
            text = line.attributes[i]
            line.attributes[i] = text[: at.start()] + new + text[at.end() :]
    return line.text()


CHANGES: tuple[Change, ...] = (
    add_attribute, add_attribute, add_generic, add_generic, drop_attribute, swap_attribute,
    swap_attribute, shuffle_attributes, drop_shape, shaped_operands, change_operands, other_layout,
    make_asynchronous, make_asynchronous, change_string, change_number,
)  # fmt: skip


def change_header(rng: random.Random, pool: Pool, text: str) -> str:
    """Give the module another attribute."""
    match = re.match(r"HloModule [\w.-]+", text)
    if match is None:
        return text
    return f"{text[: match.end()]}, {rng.choice(pool.headers)}{text[match.end() :]}"


def mutated(rng: random.Random, pool: Pool, changes: int = 2) -> str:
    """Return one of the texts with up to so many changes."""
    text = rng.choice(pool.texts)
    for _ in range(rng.randint(1, changes)):
        if rng.random() < 0.1:
            text = change_header(rng, pool, text)
            continue
        lines = text.split("\n")
        at = [i for i, line in enumerate(lines) if _LINE.match(line)]
        if not at:
            continue
        i = rng.choice(at)
        line = line_of(lines[i])
        assert line is not None
        lines[i] = rng.choice(CHANGES)(rng, pool, line)
        text = "\n".join(lines)
    return text
