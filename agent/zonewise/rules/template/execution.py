"""Executes a template over matched features (Go's text/template/exec.go), within limits of steps and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.rules.template.functions import FUNCTIONS, SHORT_CIRCUIT
from zonewise.rules.template.nodes import (
    ActionNode,
    BranchNode,
    Chain,
    Dot,
    Identifier,
    JumpNode,
    Literal,
    Pipeline,
    TemplateNode,
    TextNode,
    Variable,
)
from zonewise.rules.template.parser import parse_template
from zonewise.rules.template.values import as_list, as_map, is_true, kind, printed
from zonewise.rules.types import RuleError
from zonewise.rules.white_space import WHITE_SPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise.rules.template.nodes import Node, Operand
    from zonewise.rules.template.values import Value

MAX_STEPS = 50_000
"""Maximum number of operations of one execution: nested ranges over all PCI devices of a large machine need a tenth of
it."""
MAX_OUTPUT = 256 * 1024
"""Maximum characters of the output."""
MAX_DEPTH = 100
"""Maximum nesting of blocks and calls of templates. Go allows calls 100,000 deep."""

_TEXT_PER_STEP = 100
"""Characters of text that a function can read or make in the time of one step."""


def expand_map(source: str, data: Value) -> dict[str, str]:
    """Return the lines NAME=VALUE that a template produces from the data. Raises RuleError."""
    entries: dict[str, str] = {}
    for line in expand(source, data).split("\n"):
        name, equals, value = line.strip(WHITE_SPACE).partition("=")
        if not equals and name:
            raise RuleError(f'template: the line {name[:100]!r} has no "=": a line must be NAME=VALUE')
        if equals:
            entries[name] = value
    return entries


def expand(source: str, data: Value) -> str:
    """Return the text that a template produces from the data. Raises RuleError."""
    return _Execution(data, parse_template(source)).run()


class _Jump(Exception):
    """A break or continue in progress."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class _Execution:
    """One execution, with its output, variables and limits."""

    def __init__(self, data: Value, templates: Mapping[str, tuple[Node, ...]]) -> None:
        self._data = data
        self._templates = templates
        self._depth = 0
        self._variables: list[tuple[str, Value]] = [("$", data)]
        self._output: list[str] = []
        self._size = 0
        self._steps = 0
        self._line = 1

    def run(self) -> str:
        """Execute the template and return the output."""
        try:
            self._walk(self._templates[""], self._data)
        except RuleError as error:
            message = str(error)
            raise RuleError(message if message.startswith("template") else f"template, line {self._line}: {message}") \
                from error  # fmt: skip
        return "".join(self._output)

    def _walk(self, nodes: Iterable[Node], dot: Value) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RuleError(f"blocks and templates are nested more than {MAX_DEPTH} deep")
        try:
            self._walk_nodes(nodes, dot)
        finally:
            self._depth -= 1

    def _walk_nodes(self, nodes: Iterable[Node], dot: Value) -> None:
        for node in nodes:
            self._step()
            if isinstance(node, TextNode):
                self._write(node.text)
            elif isinstance(node, ActionNode):
                value = self._pipeline(node.pipeline, dot)
                if not node.pipeline.variables:
                    self._write(printed(value))
            elif isinstance(node, JumpNode):
                raise _Jump(node.kind)
            elif isinstance(node, TemplateNode):
                self._call_template(node, dot)
            else:
                self._branch(node, dot)

    def _call_template(self, node: TemplateNode, dot: Value) -> None:
        """Execute a named template, which sees its dot but no variables (exec.go walkTemplate)."""
        self._line = node.line or self._line
        nodes = self._templates.get(node.name)
        if nodes is None:
            raise RuleError(f"there is no template {node.name[:50]!r}")
        argument = None if node.pipeline is None else self._pipeline(node.pipeline, dot)
        around, self._variables = self._variables, [("$", argument)]
        try:
            self._walk(nodes, argument)
        finally:
            self._variables = around

    def _branch(self, node: BranchNode, dot: Value) -> None:
        scope = len(self._variables)
        try:
            if node.kind == "range":
                self._range(node, dot)
                return
            value = self._pipeline(node.pipeline, dot)
            inner = value if node.kind == "with" and is_true(value) else dot
            self._walk(node.body if is_true(value) else node.otherwise, inner)
        finally:
            del self._variables[scope:]

    def _range(self, node: BranchNode, dot: Value) -> None:
        value = self._pipeline(node.pipeline._replace(variables=()), dot)
        empty = True
        for key, element in _pairs(value):
            empty = False
            self._step()
            scope = len(self._variables)
            self._assign_element(node.pipeline, key, element)
            try:
                self._walk(node.body, element)
            except _Jump as jump:
                if jump.kind == "break":
                    break
            finally:
                del self._variables[scope:]
        if empty:
            self._walk(node.otherwise, dot)

    def _assign_element(self, pipeline: Pipeline, key: Value, element: Value) -> None:
        names = pipeline.variables
        values = (key, element) if len(names) == 2 else (element,)
        for name, value in zip(names, values, strict=False):
            self._set(name, value, declares=pipeline.declares)

    def _pipeline(self, pipeline: Pipeline, dot: Value) -> Value:
        self._step()
        self._line = pipeline.line or self._line
        first, *later = pipeline.commands
        value = self._command(first, dot, ())
        for command in later:
            value = self._command(command, dot, (value,))
        for name in pipeline.variables:
            self._set(name, value, declares=pipeline.declares)
        return value

    def _command(self, command: tuple[Operand, ...], dot: Value, final: tuple[Value, ...]) -> Value:
        self._step()
        first, *others = command
        if isinstance(first, Identifier):
            return self._call(first.name, others, dot, final)
        if others or final:
            raise RuleError(f"{_shown(first)} is not a function, but has arguments")
        if first == Literal(None) and isinstance(first, Literal):
            raise RuleError("nil is not a command")
        return self._evaluate(first, dot)

    def _call(self, name: str, operands: list[Operand], dot: Value, final: tuple[Value, ...]) -> Value:
        if name in SHORT_CIRCUIT:
            return self._short_circuit(name, operands, dot, final)
        values = [self._evaluate(operand, dot) for operand in operands] + list(final)
        function = FUNCTIONS[name]
        if not function.fewest <= len(values) <= function.most:
            raise RuleError(f"{name} does not accept {len(values)} arguments")
        self._step(sum(map(_size, values)))
        result = function.call(*values)
        self._step(_size(result))
        return result

    def _short_circuit(self, name: str, operands: list[Operand], dot: Value, final: tuple[Value, ...]) -> Value:
        if not operands and not final:
            raise RuleError(f"{name} does not accept 0 arguments")
        value: Value = None
        for operand in operands:
            value = self._evaluate(operand, dot)
            if is_true(value) == (name == "or"):
                return value
        return final[0] if final else value

    def _evaluate(self, operand: Operand, dot: Value) -> Value:
        self._step()
        if isinstance(operand, Literal):
            return operand.value
        if isinstance(operand, Dot):
            return dot
        if isinstance(operand, Variable):
            return self._variable(operand.name)
        if isinstance(operand, Identifier):
            return self._call(operand.name, [], dot, ())
        if isinstance(operand, Pipeline):
            return self._pipeline(operand, dot)
        value = self._evaluate(operand.base, dot)
        for name in operand.names:
            value = _field(value, name)
        return value

    def _variable(self, name: str) -> Value:
        for known, value in reversed(self._variables):
            if known == name:
                return value
        raise RuleError(f"there is no variable {name}")

    def _set(self, name: str, value: Value, *, declares: bool) -> None:
        if declares:
            self._variables.append((name, value))
            return
        for i in range(len(self._variables) - 1, -1, -1):
            if self._variables[i][0] == name:
                self._variables[i] = (name, value)
                return
        raise RuleError(f"there is no variable {name}")

    def _write(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_OUTPUT:
            raise RuleError(f"template: the output has more than {MAX_OUTPUT} characters")
        self._output.append(text)

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            raise RuleError(f"template: the evaluation takes more than {MAX_STEPS} steps")


def _pairs(value: Value) -> Iterator[tuple[Value, Value]]:
    """Yield the keys and elements over which a range iterates."""
    if value is None:
        return
    if isinstance(value, int) and not isinstance(value, bool):
        yield from ((i, i) for i in range(value))
    elif (items := as_list(value)) is not None:
        yield from enumerate(items)
    elif (entries := as_map(value)) is not None:
        yield from sorted(entries.items())
    else:
        raise RuleError(f"range: cannot iterate over a {kind(value)}")


def _size(value: Value) -> int:
    """Return the number of steps that a value costs as an argument or result."""
    if isinstance(value, str):
        return len(value) // _TEXT_PER_STEP
    items = as_list(value)
    return 0 if items is None else len(items)


def _field(value: Value, name: str) -> Value:
    entries = as_map(value)
    if entries is None:
        raise RuleError(f"a {kind(value)} has no field .{name}")
    if name not in entries:
        raise RuleError(f"there is no field .{name}: the fields are {', '.join(sorted(entries))[:200] or 'none'}")
    return entries[name]


def _shown(operand: Operand) -> str:
    if isinstance(operand, Chain):
        return "".join(f".{name}" for name in operand.names)
    return f"a {type(operand).__name__.lower()}"
