"""Splits a template into texts and actions, and actions into tokens (Go's text/template/parse/lex.go)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.rules.types import RuleError

if TYPE_CHECKING:
    from collections.abc import Iterator

SPACE = " \t\r\n"
"""Characters that trim markers remove and that separate arguments."""

_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*\*/")
_COMMENT_END = re.compile(r"(?:[ \t\r\n]-)?\}\}")
_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n]+)
    | (?P<end>\}\})
    | (?P<string>"(?:\\.|[^"\\\n])*")
    | (?P<raw>`[^`]*`)
    | (?P<character>'(?:\\.|[^'\\\n])*')
    | (?P<field>\.[^\W\d]\w*)
    | (?P<variable>\$\w*)
    | (?P<number>[+-]?\d[\w.]*|[+-]?\.\d[\w.]*)
    | (?P<name>[^\W\d]\w*)
    | (?P<dot>\.)
    | (?P<mark>:=|[=|(),])
    """,
    re.VERBOSE,
)
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))")


class Token(NamedTuple):
    """A word of an action."""

    kind: str
    text: str
    line: int


class TemplateText(NamedTuple):
    """Text between actions, trimmed."""

    text: str


class Action(NamedTuple):
    """The tokens of one action, including spaces."""

    tokens: tuple[Token, ...]
    line: int


def split_template(source: str) -> Iterator[TemplateText | Action]:
    """Yield the parts of a template. Raises RuleError."""
    position, line, trims_next = 0, 1, False
    while position < len(source):
        start = source.find("{{", position)
        text = source[position : start if start >= 0 else len(source)]
        line += text.count("\n")
        trims = start >= 0 and source.startswith("{{-", start) and source[start + 3 : start + 4] in tuple(SPACE)
        text = text.lstrip(SPACE) if trims_next else text
        text = text.rstrip(SPACE) if trims else text
        if text:
            yield TemplateText(text)
        if start < 0:
            return
        inside = start + (4 if trims else 2)
        if comment := _COMMENT.match(source, inside) if source.startswith("/*", inside) else None:
            end = _COMMENT_END.match(source, comment.end())
            if end is None:
                raise _error(line, "a comment must end with */}}")
            position = end.end()
        elif source.startswith("/*", inside):
            raise _error(line, "a comment has no end */}}")
        else:
            tokens, position = _tokens(source, inside, line)
            yield Action(tokens, line)
        trims_next = source[position - 3 : position - 2] == "-" and source[position - 4] in SPACE
        line += source.count("\n", start, position)


def _tokens(source: str, position: int, line: int) -> tuple[tuple[Token, ...], int]:
    """Return the tokens of an action, and the position after its end."""
    tokens: list[Token] = []
    while position < len(source):
        # " -}}" ends an action, and trims
        if source.startswith("-}}", position) and tokens and tokens[-1].kind == "space":
            return tuple(tokens), position + 3
        match = _TOKEN.match(source, position)
        if match is None:
            raise _error(line, f"{source[position : position + 20]!r} is not part of an action")
        kind, text = str(match.lastgroup), match[0]
        position = match.end()
        if kind == "end":
            return tuple(tokens), position
        tokens.append(Token(kind, text, line))
        line += text.count("\n")
    raise _error(line, "an action has no end }}")


def unquoted(token: Token) -> str:
    """Return the text of a string token. Raises RuleError."""
    if token.kind == "raw":
        return token.text[1:-1]
    return _ESCAPE.sub(lambda match: _escaped(match, token), token.text[1:-1])


def _escaped(match: re.Match[str], token: Token) -> str:
    simple, *codes, octal, unknown = match.groups()
    if simple:
        return _SIMPLE_ESCAPES[simple]
    if unknown is not None:
        raise _error(token.line, f"{match[0]} is not an escape sequence in {token.text[:50]}")
    code = int(octal, 8) if octal else int(next(code for code in codes if code), 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise _error(token.line, f"{match[0]} is not a character in {token.text[:50]}")
    return chr(code)


def _error(line: int, reason: str) -> RuleError:
    return RuleError(f"template, line {line}: {reason}")
