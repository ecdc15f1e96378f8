"""The length of sentences: docs/concepts/glossary.md allows 25 words, so that a sentence expresses one idea.

The same holds for help texts, messages and the comments of manifests. Code spans, quoted output and plain-text tables
are not sentences. A list of code spans counts as one word, and text in
parentheses as a separate sentence.
"""

from __future__ import annotations

import ast
import functools
import io
import itertools
import re
import tokenize
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.snapshots import PROJECT
from support.source_roots import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_WORDS = 25
PAGES = sorted(
    str(page.relative_to(PROJECT))
    for page in [*PROJECT.glob("*.md"), *PROJECT.glob("*/README.md"), *(PROJECT / "docs").rglob("*.md")]
    if not page.read_text().startswith("<!-- Generated")  # its texts are tested in the code
)
CODE = [str(root.relative_to(PROJECT)) for root in SOURCES.values()] + ["benchmarks", "demo", "tests", "tools"]
_CODE_SPAN = re.compile(r"``.+?``|`[^`]+`")
_SPAN_LIST = re.compile(r"§(?:(?:,|;| and| or| to| /)* ?§)+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'*_)]*\s+(?=[\"'*_(§A-Z0-9])")
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*] |\d+\. |#))|\|")
"""Ends of sentences other than a full stop: an empty line, the next list item, a heading, and a table cell."""
_COLUMNS = re.compile(r"\S {2,}\S")
_WORD = re.compile(r"[^\W_]")
_PROSE = re.compile(r"\b(a|an|the|is|are|of|to)\b")
"""Words without which a string is no message: style sheets and tables of names have none of them."""


def long_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that have too many words, with their numbers of words."""
    for block in _BLOCK.split(text):
        if any(_COLUMNS.search(line.strip()) for line in block.splitlines()):  # a plain-text table
            continue
        plain = _SPAN_LIST.sub("§", _LINK.sub(r"\1", _CODE_SPAN.sub("§", " ".join(block.split()))))
        for sentence in _SENTENCE_END.split(plain):
            for part in _parts(sentence):
                words = [word for word in part.split() if word == "§" or _WORD.search(word)]
                if len(words) > MAX_WORDS:
                    yield f"{len(words)} words: {part.strip()}"


def _parts(sentence: str) -> Iterator[str]:
    """Yield the texts in parentheses, and the sentence without them."""
    while match := _PARENTHESES.search(sentence):
        yield match[1]
        sentence = sentence[: match.start()] + sentence[match.end() :]
    yield sentence


class _Texts(NamedTuple):
    """The texts of a module, each with its line."""

    prose: list[tuple[int, str]]
    """Docstrings and comments."""
    messages: list[tuple[int, str]]
    """Messages and help texts; "X" stands for an inserted value."""


@functools.cache
def _texts(file: Path) -> _Texts:
    """Return the texts of a module; parsing takes most of the time of these tests."""
    source = file.read_text()
    texts = _Texts([], [])
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                texts.prose.append((node.lineno, docstring))
                continue
            case ast.JoinedStr():
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            case ast.Constant(value=str(text)):
                pass
            case _:
                continue
        if len(text) > 2 * MAX_WORDS and _PROSE.search(text):
            texts.messages.append((node.lineno, text))
    if _has_long_comment(source):
        texts.prose.extend(_comments(source))
    return texts


def _has_long_comment(source: str) -> bool:
    """Return whether neighbouring lines with a "#" have enough words for a long sentence; tokenizing is slow."""
    lines = itertools.groupby(source.splitlines(), key=lambda line: "#" in line)
    return any(marked and sum(len(line.split()) for line in group) > MAX_WORDS for marked, group in lines)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    line, comment = 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        alone = not token.line[: token.start[1]].strip()
        if not (alone and token.start[0] == line + 1):
            yield line, comment
            comment = ""
        line, comment = token.start[0], f"{comment} {token.string.lstrip('# ')}"
    yield line, comment


def _yaml_comments(text: str) -> Iterator[str]:
    """Yield the comments of a YAML file; neighbouring lines are one comment."""
    for is_comment, lines in itertools.groupby(text.splitlines(), key=lambda line: line.lstrip().startswith("#")):
        if is_comment:
            yield "\n".join(line.lstrip().removeprefix("#") for line in lines)


@pytest.mark.parametrize("page", PAGES)
def test_sentences_of_pages_are_short(page: str) -> None:
    assert list(long_sentences(_FENCE.sub("\n", (PROJECT / page).read_text()))) == []


@pytest.mark.parametrize("folder", CODE)
def test_sentences_of_docstrings_and_comments_are_short(folder: str) -> None:
    long = [
        f"{file.relative_to(PROJECT)}:{line}: {sentence}"
        for file in sorted((PROJECT / folder).rglob("*.py"))
        for line, text in _texts(file).prose
        for sentence in long_sentences(text)
    ]
    assert long == []


@pytest.mark.parametrize("root", SOURCES)
def test_sentences_of_messages_and_help_texts_are_short(root: str) -> None:
    long = [
        f"{file.relative_to(PROJECT)}:{line}: {sentence}"
        for file in sorted(SOURCES[root].rglob("*.py"))
        for line, text in _texts(file).messages
        for sentence in long_sentences(text)
    ]
    assert long == []


@pytest.mark.parametrize("folder", ["manifests", "demo", ".github"])
def test_sentences_of_comments_in_yaml_are_short(folder: str) -> None:
    files = [file for file in sorted((PROJECT / folder).rglob("*")) if file.suffix in {".yaml", ".yml"}]
    long = [
        f"{file.relative_to(PROJECT)}: {sentence}"
        for file in files
        for comment in _yaml_comments(file.read_text())
        for sentence in long_sentences(comment)
    ]
    assert files
    assert long == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("word " * 25 + "end.", 26),
        ("Word " * 13 + "end. " + "Word " * 13 + "end.", 0),
        ("Word " * 13 + "(" + "word " * 12 + "end) end.", 0),
        ("Word " * 24 + "`a`, `b`, `c` and `d e f`.", 0),
        ("- " + "word " * 20 + "\n- " + "word " * 20, 0),
        ("| " + "word " * 20 + "| " + "word " * 20 + "|", 0),
        ("word " * 13 + "\n" + "word " * 13, 26),
    ],
)
def test_long_sentences_are_recognized(text: str, number: int) -> None:
    assert [int(sentence.split()[0]) for sentence in long_sentences(text)] == ([number] if number else [])
