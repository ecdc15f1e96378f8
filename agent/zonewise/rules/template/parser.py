"""Parses a template (Go's text/template/parse/parse.go)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise.rules.template.functions import FUNCTIONS, SHORT_CIRCUIT
from zonewise.rules.template.lexer import Action, Token, split_template, unquoted
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
from zonewise.rules.types import RuleError
from zonewise.rules.white_space import WHITE_SPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.rules.template.nodes import Node, Operand

MAX_SIZE = 64 * 1024
"""Maximum bytes of a template (MaxTemplateSize)."""
MAX_DEPTH = 50
"""Maximum nesting of blocks and parentheses. Go has no such limit; no rule comes near it."""

_BLOCKS = ("if", "range", "with")
_CONSTANTS = {"true": True, "false": False, "nil": None}
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_END = Token("end", "}}", 0)


@lru_cache(16)
def parse_template(source: str) -> Mapping[str, tuple[Node, ...]]:
    """Return the nodes of a template, under the empty name, and of the templates that it defines. Raises RuleError."""
    if len(source.encode("utf-8", "replace")) > MAX_SIZE:
        raise RuleError(f"a template has more than {MAX_SIZE} bytes")
    return _TemplateParser(source).templates()


class _TemplateParser:
    """The state of a parse: the remaining parts of the template, and the variables in scope."""

    def __init__(self, source: str) -> None:
        self._parts = split_template(source)
        self._depth = 0
        self._variables = ["$"]
        self._templates: dict[str, tuple[Node, ...]] = {}

    def templates(self) -> Mapping[str, tuple[Node, ...]]:
        """Parse the template; return the nodes by template name."""
        nodes, _ = self.block(("",), loops=0)
        self._add("", nodes, 0)
        return self._templates

    def block(self, ends: tuple[str, ...], loops: int) -> tuple[tuple[Node, ...], Action | None]:
        """Return the nodes up to an action that ends the block, and that action; "" ends at the template's end."""
        nodes: list[Node] = []
        for part in self._parts:
            if not isinstance(part, Action):
                nodes.append(TextNode(part.text))
                continue
            words = _Words(part)
            keyword = words.peek().text if words.peek().kind == "name" else ""
            if keyword in ("end", "else"):
                if keyword not in ends:
                    raise _error(part.line, f"{{{{{keyword}}}}} belongs to no block")
                return tuple(nodes), part
            if keyword == "define" and "" in ends:
                self._define(words)
                continue
            nodes.append(self._node(part, words, keyword, loops))
        if "" not in ends:
            raise _error(0, "a block has no {{end}}")
        return tuple(nodes), None

    def _node(self, part: Action, words: _Words, keyword: str, loops: int) -> Node:
        if keyword == "define":
            raise _error(part.line, "{{define}} within a block")
        if keyword in ("template", "block"):
            words.next()
            return self._named(words, keyword)
        if keyword in _BLOCKS:
            words.next()
            return self._branch(words, keyword, loops)
        if keyword in ("break", "continue"):
            words.next()
            words.expect_end()
            if not loops:
                raise _error(part.line, f"{{{{{keyword}}}}} outside of {{{{range}}}}")
            return JumpNode(keyword, part.line)
        return ActionNode(self._whole_pipeline(words))

    def _branch(self, words: _Words, kind: str, loops: int) -> BranchNode:
        scope = len(self._variables)
        self._nest(words.line, 1)
        pipeline = self._whole_pipeline(words, most_variables=2 if kind == "range" else 1)
        body, end = self.block(("end", "else"), loops + (kind == "range"))
        otherwise: tuple[Node, ...] = ()
        if end is not None and _Words(end).next().text == "else":
            otherwise = self._otherwise(end, kind, loops)
        self._nest(words.line, -1)
        del self._variables[scope:]
        return BranchNode(kind, pipeline, body, otherwise)

    def _define(self, words: _Words) -> None:
        """Add a named template; the nodes around it do not change."""
        words.next()
        name = words.name("define")
        words.expect_end()
        self._add(name, self._definition(words.line), words.line)

    def _named(self, words: _Words, keyword: str) -> TemplateNode:
        """Return a call; a block is a definition and its call."""
        line, name = words.line, words.name(keyword)
        pipeline = None if keyword == "template" and words.is_at_end() else self._whole_pipeline(words)
        if keyword == "block":
            self._add(name, self._definition(line), line)
        return TemplateNode(name, pipeline, line)

    def _definition(self, line: int) -> tuple[Node, ...]:
        """Return the nodes up to the {{end}}: they see neither the variables nor the range around them."""
        around, self._variables = self._variables, ["$"]
        self._nest(line, 1)
        nodes, _ = self.block(("end",), loops=0)
        self._nest(line, -1)
        self._variables = around
        return nodes

    def _add(self, name: str, nodes: tuple[Node, ...], line: int) -> None:
        """Add a named template; an empty template is replaced and does not count as a duplicate (parse.go Tree.add)."""
        if _is_empty(self._templates.get(name, ())):
            self._templates[name] = nodes
        elif not _is_empty(nodes):
            raise _error(line, f"two templates have the name {name[:50]!r}")

    def _otherwise(self, end: Action, kind: str, loops: int) -> tuple[Node, ...]:
        words = _Words(end)
        words.next()
        words.skip_space()
        following = words.peek().text
        if following == kind and kind != "range":  # {{else if}} and {{else with}} share the {{end}}
            words.next()
            return (self._branch(words, kind, loops),)
        words.expect_end()
        return self.block(("end",), loops)[0]

    def _whole_pipeline(self, words: _Words, most_variables: int = 1) -> Pipeline:
        pipeline = self._pipeline(words, most_variables)
        words.expect_end()
        return pipeline

    def _pipeline(self, words: _Words, most_variables: int = 1) -> Pipeline:
        self._nest(words.line, 1)
        variables, declares = self._assignment(words, most_variables)
        commands = [self._command(words)]
        while words.accept("|"):
            commands.append(self._command(words))
        if any(isinstance(command[0], Literal) for command in commands[1:]):
            raise _error(words.line, "a constant cannot take the result of a command")
        if declares:
            self._variables += variables
        self._nest(words.line, -1)
        return Pipeline(tuple(commands), variables, declares, words.line)

    def _assignment(self, words: _Words, most: int) -> tuple[tuple[str, ...], bool]:
        names, mark = words.assigned_variables()
        if not names:
            return (), False
        if len(names) > most:
            raise _error(words.line, f"{len(names)} variables are assigned one value")
        if mark == "=":
            for name in names:
                self._check_variable(name, words.line)
        return names, mark == ":="

    def _command(self, words: _Words) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        while True:
            words.skip_space()
            token = words.peek()
            if token.kind == "end" or token.text in ("|", ")"):
                break
            operands.append(self._operand(words))
            if words.peek().kind not in ("space", "end") and words.peek().text not in ("|", ")"):
                raise _error(words.line, f"{words.peek().text!r} follows an operand without a blank")
        if not operands:
            raise _error(words.line, "a command is missing")
        return tuple(operands)

    def _operand(self, words: _Words) -> Operand:
        token = words.next()
        operand: Operand
        if token.kind == "field":
            operand = Chain(Dot(), (token.text[1:],))
        elif token.kind == "dot":
            operand = Dot()
        elif token.kind == "variable":
            self._check_variable(token.text, token.line)
            operand = Variable(token.text)
        elif token.text == "(" and token.kind == "mark":
            operand = self._pipeline(words)
            if not words.accept(")"):
                raise _error(token.line, "a parenthesis is not closed")
        else:
            return _constant_or_function(token)
        names = tuple(words.fields())
        return operand if not names else _chain(operand, names)

    def _check_variable(self, name: str, line: int) -> None:
        if name not in self._variables:
            raise _error(line, f"there is no variable {name}")

    def _nest(self, line: int, step: int) -> None:
        self._depth += step
        if self._depth > MAX_DEPTH:
            raise _error(line, f"blocks and parentheses are nested more than {MAX_DEPTH} deep")


class _Words:
    """The tokens of one action, read from left to right."""

    def __init__(self, action: Action) -> None:
        self._tokens = action.tokens
        self._index = 0
        self.line = action.line
        self.skip_space()

    def peek(self) -> Token:
        return self._tokens[self._index] if self._index < len(self._tokens) else _END

    def next(self) -> Token:
        token = self.peek()
        self._index += 1
        self.line = token.line or self.line
        return token

    def skip_space(self) -> None:
        while self.peek().kind == "space":
            self._index += 1

    def accept(self, mark: str) -> bool:
        self.skip_space()
        if self.peek() == _END or self.peek().kind != "mark" or self.peek().text != mark:
            return False
        self._index += 1
        return True

    def expect_end(self) -> None:
        if not self.is_at_end():
            raise _error(self.line, f"unexpected {self.peek().text!r}")

    def is_at_end(self) -> bool:
        self.skip_space()
        return self.peek() is _END

    def name(self, keyword: str) -> str:
        """Return the name of a template, after its keyword and white space."""
        space = self.peek()
        self.skip_space()
        token = self.next()
        if space.kind != "space" or token.kind not in ("string", "raw"):
            raise _error(self.line, f"{{{{{keyword}}}}} needs a name in quotes")
        return unquoted(token)

    def fields(self) -> Iterator[str]:
        """Yield the fields that follow directly."""
        while self.peek().kind == "field":
            yield self.next().text[1:]

    def assigned_variables(self) -> tuple[tuple[str, ...], str]:
        """Return the variables before `:=` or `=`, as in `$a, $b :=`, and the mark; nothing if the action begins
        otherwise.
        """
        start, names = self._index, list[str]()
        self.skip_space()
        while self.peek().kind == "variable":
            names.append(self.next().text)
            for mark in (":=", "="):
                if self.accept(mark):
                    return tuple(names), mark
            if not self.accept(","):
                break
            self.skip_space()
        self._index = start
        return (), ""


def _constant_or_function(token: Token) -> Operand:
    if token.kind in ("string", "raw"):
        return Literal(unquoted(token))
    if token.kind == "name":
        if token.text in _CONSTANTS:
            return Literal(_CONSTANTS[token.text])
        if token.text in FUNCTIONS or token.text in SHORT_CIRCUIT:
            return Identifier(token.text)
        raise _error(token.line, f"the function {token.text[:50]!r} is not supported")
    if token.kind == "number" and _INTEGER.fullmatch(token.text):
        return Literal(_integer(token))
    raise _error(token.line, f"{token.text[:50]!r} is not supported")


def _integer(token: Token) -> int:
    digits = token.text.lstrip("+-")
    octal = re.fullmatch(r"0[0-7]+", digits)
    number = int(digits, 8) if octal else int(digits[:100], 0)
    if len(digits) > 100 or number >= 1 << 63:
        raise _error(token.line, f"{token.text[:50]} is out of the range of 64 bits")
    return -number if token.text.startswith("-") else number


def _is_empty(nodes: tuple[Node, ...]) -> bool:
    """Return whether there is only white space (parse.go IsEmptyTree)."""
    return all(isinstance(node, TextNode) and not node.text.strip(WHITE_SPACE) for node in nodes)


def _chain(operand: Operand, names: tuple[str, ...]) -> Chain:
    return Chain(operand.base, operand.names + names) if isinstance(operand, Chain) else Chain(operand, names)


def _error(line: int, reason: str) -> RuleError:
    at = f"line {line}: " if line else ""
    return RuleError(f"template, {at}{reason}")
