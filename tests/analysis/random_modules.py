"""Random HLO modules as text: dataflow, control flow and aliasing, of equal and unequal sizes."""

import random

CONTROL = ("call", "while", "conditional")


class RandomModule:
    """Draws a module; equal seeds give equal text.

    Values are f32 vectors of 16 to 64 elements; loops carry a counter, a few vectors, and now and
    then one element that stays as it is, changes places, or is returned from outside.
    """

    def __init__(self, seed, size=20, *, control=CONTROL, aliased=True, depth=2):
        self.random = random.Random(seed)
        self.size = size
        self.control = list(control)
        self.aliased = aliased
        self.depth = depth
        self.count = 0
        self.computations = []

    def text(self):
        parameters = [self.random.choice((16, 32, 64)) for _ in range(self.random.randint(1, 4))]
        results = self.random.randint(1, 5)
        lines, outputs = self.body("ENTRY main", parameters, results, self.size, self.depth)
        del lines
        header = "HloModule random"
        aliases = self.aliases(parameters, outputs)
        if aliases:
            header += f", input_output_alias={{ {', '.join(aliases)} }}"
        return "\n\n".join([header, *self.computations]) + "\n"

    def aliases(self, parameters, outputs):
        free = list(range(len(parameters) if self.aliased else 0))
        found = []
        for output, width in enumerate(outputs):
            match = [p for p in free if parameters[p] == width]
            if match and self.random.random() < 0.6:
                chosen = self.random.choice(match)
                free.remove(chosen)
                found.append(f"{{{output}}}: ({chosen}, {{}}, may-alias)")
        return found

    def name(self, stem):
        self.count += 1
        return f"{stem}.{self.count}"

    def body(self, title, parameters, results, size, depth):
        """Write a computation on vectors that returns a tuple; return its widths."""
        lines, pool = [], []
        for number, width in enumerate(parameters):
            name = self.name("p")
            lines.append(f"  {name} = f32[{width}]{{0}} parameter({number})")
            pool.append((name, width))
        for _ in range(size):
            pool += self.instruction(lines, pool, depth)
        outputs = [self.random.choice(pool) for _ in range(results)]
        return self.finish(title, lines, outputs)

    def finish(self, title, lines, outputs):
        shape = ", ".join([f"f32[{width}]{{0}}" for _, width in outputs])
        operands = ", ".join([name for name, _ in outputs])
        lines.append(f"  ROOT {self.name('root')} = ({shape}) tuple({operands})")
        self.computations.append("\n".join([f"{title} {{", *lines, "}"]))
        return lines, [width for _, width in outputs]

    def instruction(self, lines, pool, depth):
        kinds = [
            "unary",
            "unary",
            "binary",
            "binary",
            "update",
            "dot",
            "constant",
            "reshape",
            "new",
        ]
        if depth:
            kinds += self.control
        return getattr(self, "make_" + self.random.choice(kinds))(lines, pool, depth)

    def add(self, lines, width, text):
        name = self.name("v")
        lines.append(f"  {name} = f32[{width}]{{0}} {text}")
        return [(name, width)]

    def make_unary(self, lines, pool, depth):
        name, width = self.random.choice(pool)
        return self.add(lines, width, f"negate({name})")

    def make_binary(self, lines, pool, depth):
        name, width = self.random.choice(pool)
        other = self.random.choice([x for x, w in pool if w == width])
        return self.add(lines, width, f"add({name}, {other})")

    def make_dot(self, lines, pool, depth):
        name, width = self.random.choice(pool)
        return self.add(lines, width, f"reverse({name}), dimensions={{0}}")

    def make_constant(self, lines, pool, depth):
        constant = self.add(lines, 16, f"constant({{{', '.join(['1'] * 16)}}})")
        return constant

    def make_new(self, lines, pool, depth):
        return self.add(lines, self.random.choice((16, 32, 64)), "iota(), iota_dimension=0")

    def make_update(self, lines, pool, depth):
        name, width = self.random.choice(pool)
        smaller = [x for x in pool if x[1] <= width]
        update, _ = self.random.choice(smaller)
        index = self.name("i")
        lines.append(f"  {index} = s32[] constant(0)")
        return self.add(lines, width, f"dynamic-update-slice({name}, {update}, {index})")

    def make_reshape(self, lines, pool, depth):
        name, width = self.random.choice(pool)
        square = self.name("r")
        lines.append(f"  {square} = f32[{width // 4},4]{{1,0}} reshape({name})")
        return self.add(lines, width, f"reshape({square})")

    def elements(self, lines, name, widths):
        found = []
        for index, width in enumerate(widths):
            if width:
                found += self.add(lines, width, f"get-tuple-element({name}), index={index}")
        return found

    def arguments(self, pool, most=4):
        return [self.random.choice(pool) for _ in range(self.random.randint(1, most))]

    def make_call(self, lines, pool, depth):
        given = self.arguments(pool)
        title = self.name("callee")
        size = self.random.randint(0, 5)
        results = self.random.randint(1, 3)
        _, widths = self.body(title, [w for _, w in given], results, size, depth - 1)
        shape = ", ".join([f"f32[{w}]{{0}}" for w in widths])
        names = ", ".join([x for x, _ in given])
        found = []
        for _ in range(self.random.randint(1, 2)):
            name = self.name("call")
            lines.append(f"  {name} = ({shape}) call({names}), to_apply={title}")
            found += self.elements(lines, name, widths)
        return found

    def make_conditional(self, lines, pool, depth):
        given = [self.arguments(pool), self.arguments(pool)]
        widths = [self.random.choice((16, 32)) for _ in range(self.random.randint(1, 3))]
        titles, operands = [], []
        for arguments in given:
            title = self.name("branch")
            self.branch(title, arguments, widths, depth)
            titles.append(title)
            shape = ", ".join([f"f32[{w}]{{0}}" for _, w in arguments])
            operands.append(self.name("args"))
            names = ", ".join([x for x, _ in arguments])
            lines.append(f"  {operands[-1]} = ({shape}) tuple({names})")
        index = self.name("index")
        lines.append(f"  {index} = s32[] constant(1)")
        name = self.name("cond")
        shape = ", ".join([f"f32[{w}]{{0}}" for w in widths])
        lines.append(
            f"  {name} = ({shape}) conditional({index}, {', '.join(operands)}), "
            f"branch_computations={{{', '.join(titles)}}}"
        )
        return self.elements(lines, name, widths)

    def branch(self, title, arguments, widths, depth):
        lines, pool = self.unpack([w for _, w in arguments])
        for _ in range(self.random.randint(0, 4)):
            pool += self.instruction(lines, pool, depth - 1)
        outputs = [self.of_width(lines, pool, width) for width in widths]
        self.finish(title, lines, outputs)

    def unpack(self, widths, first=""):
        lines = []
        shape = ", ".join([first] * bool(first) + [f"f32[{w}]{{0}}" for w in widths])
        parameter = self.name("p")
        lines.append(f"  {parameter} = ({shape}) parameter(0)")
        if first:
            counter = self.name("counter")
            lines.append(f"  {counter} = {first} get-tuple-element({parameter}), index=0")
        pool = self.elements(lines, parameter, [0, *widths] if first else widths)
        return lines, pool

    def of_width(self, lines, pool, width):
        match = [x for x in pool if x[1] == width]
        if not match or self.random.random() < 0.1:
            match = self.add(lines, width, "iota(), iota_dimension=0")
        return self.random.choice(match)

    def make_while(self, lines, pool, depth):
        given = self.arguments(pool, 5)
        widths = [w for _, w in given]
        body, condition = self.name("body"), self.name("condition")
        self.loop_body(body, widths, depth)
        self.loop_condition(condition, widths, depth)
        zero, state, name = self.name("zero"), self.name("state"), self.name("while")
        shape = ", ".join(["s32[]", *[f"f32[{w}]{{0}}" for w in widths]])
        lines.append(f"  {zero} = s32[] constant(0)")
        names = ", ".join([zero, *[x for x, _ in given]])
        lines.append(f"  {state} = ({shape}) tuple({names})")
        lines.append(f"  {name} = ({shape}) while({state}), condition={condition}, body={body}")
        return self.elements(lines, name, [0, *widths])

    def loop_body(self, title, widths, depth):
        lines, pool = self.unpack(widths, "s32[]")
        state = list(pool)
        counter = lines[1].split()[0]
        one, after = self.name("one"), self.name("next")
        lines.append(f"  {one} = s32[] constant(1)")
        lines.append(f"  {after} = s32[] add({counter}, {one})")
        for _ in range(self.random.randint(0, 6)):
            pool += self.instruction(lines, pool, depth - 1)
        outputs = []
        for name, width in state:
            keep = self.random.random() < 0.2
            outputs.append((name, width) if keep else self.of_width(lines, pool, width))
        shape = ", ".join(["s32[]", *[f"f32[{w}]{{0}}" for _, w in outputs]])
        names = ", ".join([after, *[x for x, _ in outputs]])
        lines.append(f"  ROOT {self.name('root')} = ({shape}) tuple({names})")
        self.computations.append("\n".join([f"{title} {{", *lines, "}"]))

    def loop_condition(self, title, widths, depth):
        lines, pool = self.unpack(widths, "s32[]")
        counter = lines[1].split()[0]
        for _ in range(self.random.randint(0, 2)):
            pool += self.instruction(lines, pool, 0)
        limit = self.name("limit")
        lines.append(f"  {limit} = s32[] constant(3)")
        lines.append(
            f"  ROOT {self.name('less')} = pred[] compare({counter}, {limit}), direction=LT"
        )
        self.computations.append("\n".join([f"{title} {{", *lines, "}"]))
