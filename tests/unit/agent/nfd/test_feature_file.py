"""One feature file: names, values, directives, and invalid lines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.nfd.feature_file import parse_feature_file

if TYPE_CHECKING:
    from zonewise.nfd.types import LocalFeatures

NOW = datetime(2030, 6, 1, 12, tzinfo=UTC)


def parse(text: str | bytes, now: datetime = NOW) -> LocalFeatures:
    content = text if isinstance(text, bytes) else text.encode()
    return parse_feature_file(content, "/features.d/a", now)


def values(content: LocalFeatures) -> tuple[dict[str, str], dict[str, str]]:
    return dict(content.features), {name: label.value for name, label in content.labels.items()}


NONE: dict[str, str] = {}


def both(**elements: str) -> tuple[dict[str, str], dict[str, str]]:
    return elements, elements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", both()),
        ("a", both(a="true")),
        ("a=1\n\n  b=x=y \r\n# comment\n#+no-label\n# + no-label\nc=", both(a="1", b="x=y", c="")),
        ("a = 1", ({"a ": " 1"}, {"a ": " 1"})),
        ("=1", ({"": "1"}, {"": "1"})),
        ("\u2003a=1\u00a0", both(a="1")),
        ("\x1ca", ({"\x1ca": "true"}, {"\x1ca": "true"})),
        ("a=1\na=2", both(a="2")),
        # each directive applies only to the next line, and removes an earlier element
        ("# +no-feature\na=1\nb=2", ({"b": "2"}, {"a": "1", "b": "2"})),
        ("# +no-label\n\n# comment\na=1\nb=2", ({"a": "1", "b": "2"}, {"b": "2"})),
        ("# +no-label\n# +no-feature\na=1\nb=2", both(b="2")),
        ("a=1\n# +no-label\na=2", ({"a": "2"}, NONE)),
        ("a=1\n# +no-feature=whatever\na=2", (NONE, {"a": "2"})),
        # after an expired line, the directive above it applies to the next valid line
        (
            "# +expiry-time=2020-01-01T00:00:00Z\n# +no-label\na=1\n# +expiry-time=2040-01-01T00:00:00Z\nb=2\nc=3",
            ({"b": "2", "c": "3"}, {"c": "3"}),
        ),
    ],
)
def test_lines(text: str, expected: tuple[dict[str, str], dict[str, str]]) -> None:
    """The result is that of NFD's parseFeatureFile."""
    content = parse(text)
    assert values(content) == expected
    assert content.problems == () or "# + no-label" in text


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2080-07-28T11:22:33Z", 3489391353),
        ("2080-07-28T1:22:33Z", 3489355353),
        (" 2080-07-28T11:22:33.5Z ", 3489391353.5),
        ("2080-07-28T11:22:33,5Z", 3489391353.5),
        ("2080-07-28T11:22:33.1234567890123Z", 3489391353.123456),
        ("2080-07-28T11:22:33+01:00", 3489387753),
        ("2080-07-28T11:22:33+24:00", 3489304953),
        ("2080-07-28T11:22:33+23:60", 3489304953),
        ("2080-07-28T11:22:33-00:00", 3489391353),
    ],
)
def test_expiry_times(time: str, seconds: float) -> None:
    """The instants are those of Go's time.Parse(time.RFC3339). A line is not yet expired at its instant."""
    instant = datetime.fromtimestamp(seconds, UTC)
    text = f"# +expiry-time={time}\na=1"
    assert values(parse(text, instant)) == both(a="1")
    assert values(parse(text, instant + timedelta(microseconds=1))) == both()


@pytest.mark.parametrize(
    "time",
    [
        "2000-07-28T11:22:33+25:00", "2000-07-28T11:22:33+0100", "2000-07-28T11:22:60Z", "2000-07-28T24:22:00Z",
        "2000-02-30T11:22:00Z", "2000-07-28t11:22:33z", "2000-07-28T11:22:33.Z", "2000-7-28T11:22:33Z", "2000-07-28",
        "2000-07-28T11:2:33Z", "2000-07-28T11:22:3Z", "", "now", "٢٠٠٠-07-28T11:22:33Z",
    ],
)  # fmt: skip
def test_damaged_expiry_times(time: str) -> None:
    """A time that Go rejects is a problem and changes nothing."""
    content = parse(f"a=1\n# +expiry-time={time}\nb=2")
    assert values(content) == both(a="1", b="2")
    assert len(content.problems) == 1
    assert content.problems[0].startswith(f"/features.d/a:2: expiry-time '{time}")


def test_extreme_expiry_times() -> None:
    assert values(parse("# +expiry-time=0000-02-29T00:00:00Z\na=1")) == both()
    assert values(parse("# +expiry-time=9999-12-31T23:59:59-24:00\na=1")) == both(a="1")
    assert len(parse("# +expiry-time=9999-12-31T23:59:59-24:00\na=1").problems) == 1


def test_other_directives_are_problems() -> None:
    content = parse("# +no-le\n# +expiry-time\na=1")
    assert values(content) == both(a="1")
    directives = "the directives are expiry-time, no-feature, no-label"
    assert content.problems == (
        f"/features.d/a:1: '# +no-le' is not a directive: {directives}; the line is ignored",
        "/features.d/a:2: expiry-time '' is not a time, such as 2030-01-31T12:00:00Z; the line is ignored",
    )


def test_a_line_of_bytes_loses_only_itself() -> None:
    content = parse(b"a=1\nb=\xff\nc=3")
    assert values(content) == both(a="1", c="3")
    assert content.problems == ("/features.d/a:2: is not UTF-8: b'b=\\xff'; the line is ignored",)


def test_a_file_of_another_kind_has_few_problems() -> None:
    content = parse(b"\xff\n" * 30)
    assert len(content.problems) == 11
    assert content.problems[-1] == "/features.d/a: 20 more lines are ignored"


def test_labels_name_their_lines() -> None:
    assert parse("\na=1").labels["a"].origin == "/features.d/a:2"


LINES = st.one_of(
    st.sampled_from([b"# +no-label", b"# +no-feature", b"# +expiry-time=2020-01-01T00:00:00Z", b"# +x", b"#", b""]),
    st.binary(max_size=8),
    st.text("ab= ", max_size=4).map(str.encode),
)


@given(st.lists(LINES, max_size=12))
def test_any_content(lines: list[bytes]) -> None:
    """There is never an exception, every element is from a line, and the number of problems is bounded."""
    content = parse(b"\n".join(lines))
    texts = b"\n".join(lines).decode(errors="replace")
    assert all(name in texts for name in {*content.features, *content.labels})
    assert len(content.problems) <= 11


@given(st.lists(st.text("abc=", min_size=1, max_size=4), max_size=8))
def test_plain_lines_are_a_mapping(lines: list[str]) -> None:
    """Without directives, features and labels are equal, and the last line of a name applies."""
    pairs = [line.partition("=") for line in lines]
    expected = {name: value if equals else "true" for name, equals, value in pairs}
    assert values(parse("\n".join(lines))) == (expected, expected)
