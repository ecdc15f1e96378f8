"""The nodes into which the parser translates a template (Go's text/template/parse/node.go)."""

from __future__ import annotations

from typing import NamedTuple


class Literal(NamedTuple):
    """A constant."""

    value: str | int | bool | None


class Dot(NamedTuple):
    """The current value: `.`."""


class Variable(NamedTuple):
    """A variable, with its `$`; "$" is the whole data."""

    name: str


class Identifier(NamedTuple):
    """A function."""

    name: str


class Chain(NamedTuple):
    """Fields of a value: `.a.b`, `$x.a`, `(index . 0).a`."""

    base: Operand
    names: tuple[str, ...]


class Pipeline(NamedTuple):
    """Commands, each of which gets the previous result as its last argument."""

    commands: tuple[tuple[Operand, ...], ...]
    variables: tuple[str, ...] = ()
    """Variables that get the result."""
    declares: bool = False
    """Whether the mark is `:=` and not `=`."""
    line: int = 0


Operand = Literal | Dot | Variable | Identifier | Chain | Pipeline


class TextNode(NamedTuple):
    """Text that is copied unchanged."""

    text: str


class ActionNode(NamedTuple):
    """A pipeline whose result is printed unless the pipeline sets variables."""

    pipeline: Pipeline


class BranchNode(NamedTuple):
    """An if, with or range block."""

    kind: str
    pipeline: Pipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()


class JumpNode(NamedTuple):
    """A break or continue."""

    kind: str
    line: int


class TemplateNode(NamedTuple):
    """A call of a named template."""

    name: str
    pipeline: Pipeline | None
    """The pipeline for its dot; None means nil."""
    line: int


Node = TextNode | ActionNode | BranchNode | JumpNode | TemplateNode
