"""Fields of JSON objects: typed values, errors with paths, and problems that do not stop reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import (
    FieldError,
    FieldReader,
    milli_quantity,
    object_in,
    objects_in,
    open_object,
    quantities_in,
    string_in,
    string_map_in,
    strings_in,
)
from zonewise_common.k8s.quantity import parse_value

if TYPE_CHECKING:
    from collections.abc import Callable

Color = Literal["", "red", "blue"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("ab.", max_size=3),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.sampled_from("abc"), values, max_size=3),
    max_leaves=6,
)


# --- the functions


SOUND: list[tuple[Callable[..., object], object, object]] = [
    (object_in, {"a": 1}, {"a": 1}),
    (object_in, None, {}),
    (objects_in, [{}], [{}]),
    (objects_in, None, []),
    (string_in, "x", "x"),
    (string_in, None, ""),
    (strings_in, ["x", "y"], ("x", "y")),
    (strings_in, None, ()),
    (string_map_in, {"b": "y", "a": "x"}, (("a", "x"), ("b", "y"))),
    (quantities_in, {"cpu": "1500m", "memory": 1}, {"cpu": 1500, "memory": 1000}),
]


@pytest.mark.parametrize(("read", "value", "expected"), SOUND)
def test_sound_values(read: Callable[..., object], value: object, expected: object) -> None:
    assert read({"f": value}, "f", "spec.") == expected
    assert read({}, "f", "spec.") == read({"f": None}, "f", "spec.")


REJECTED: list[tuple[Callable[..., object], object, str]] = [
    (object_in, [], "spec.f: not an object: []"),
    (objects_in, {}, "spec.f: not a list: {}"),
    (objects_in, [{}, 1], "spec.f[1]: not an object: 1"),
    (string_in, 1, "spec.f: not a string: 1"),
    (strings_in, ["x", None], "spec.f[1]: not a string: None"),
    (string_map_in, {"k": 1}, "spec.f.k: not a string: 1"),
    (quantities_in, {"cpu": True}, "spec.f.cpu: not a quantity: True"),
    (quantities_in, {"cpu": "many"}, "spec.f.cpu: not a quantity: 'many'"),
]


@pytest.mark.parametrize(("read", "value", "message"), REJECTED)
def test_errors_name_the_field(read: Callable[..., object], value: object, message: str) -> None:
    with pytest.raises(FieldError) as error:
        read({"f": value}, "f", "spec.")
    assert str(error.value) == message
    assert error.value.field == message.partition(":")[0]


def test_a_long_value_is_abbreviated() -> None:
    with pytest.raises(FieldError) as error:
        milli_quantity(["x" * 1000], "f")
    assert len(str(error.value)) < 120


# --- the reader


def reader(**fields: Any) -> FieldReader:
    return FieldReader(fields, "spec.", [])


def test_values_that_have_no_text_are_named_by_their_type() -> None:
    """Python formats neither integers of more than 4,300 digits nor lists nested a thousand deep."""
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    for value, kind in ((-(10**5000), "int"), (nested, "list")):
        with pytest.raises(FieldError, match=f"spec.name: not a string: too large a value of type {kind}"):
            string_in({"name": value}, "name", "spec.")


def test_reader_of_sound_values() -> None:
    fields = reader(
        text="x", choice="red", number=-1, count=2, ranged=3, real=0.5, flag=True, size="1Ki",
        time="1970-01-01T00:01:00Z", name="n", texts=["a"], pairs={"a": "b"}, amounts={"cpu": "2"},
        child={"k": "v"}, children=[{"k": "v"}],
    )  # fmt: skip
    assert fields.text("text") == "x"
    assert fields.choice("choice", Color, "blue") == "red"
    assert fields.number("number") == -1
    assert fields.count("count") == 2
    assert fields.int_in_range("ranged", 1, 3) == 3
    assert fields.non_negative("real", 0) == 0.5
    assert fields.flag("flag", default=False) is True
    assert fields.quantity("size", parse_value) == 1024
    assert fields.time("time") == 60
    assert fields.required_name() == "n"
    assert fields.texts("texts") == ("a",)
    assert fields.pairs("pairs") == {"a": "b"}
    assert fields.amounts("amounts", lambda _name, value: parse_value(value)) == {"cpu": 2}
    assert fields.child("child").text("k") == "v"
    assert [child.text("k") for child in fields.children("children")] == ["v"]
    fields.report_unknown()
    assert fields.problems == []


def test_defaults_of_absent_fields() -> None:
    fields = reader()
    assert fields.text("f", "d") == "d"
    assert fields.choice("f", Color, "blue") == "blue"
    assert fields.number("f", 7) == 7
    assert fields.int_in_range("f", 7, 9) == 7
    assert fields.non_negative("f", 0.5) == 0.5
    assert fields.flag("f", default=True) is True
    assert fields.quantity("f", parse_value) is None
    assert fields.time("f") is None
    assert fields.texts("f") == ()
    assert fields.pairs("f") == {}
    assert fields.child("f").obj == {}
    assert list(fields.children("f")) == []
    assert fields.problems == []


INVALID: list[tuple[Callable[[FieldReader], object], object, str]] = [
    (lambda fields: fields.text("f"), 1, "spec.f: not a string: 1"),
    (lambda fields: fields.choice("f", Color, "blue"), "green", "spec.f: not one of red, blue: 'green'"),
    (lambda fields: fields.number("f"), True, "spec.f: not a whole number: True"),
    (lambda fields: fields.count("f"), -1, "spec.f: negative: -1"),
    (lambda fields: fields.int_in_range("f", 1, 3), 4, "spec.f: not between 1 and 3: 4"),
    (lambda fields: fields.non_negative("f", 0), -0.5, "spec.f: not a non-negative number: -0.5"),
    (lambda fields: fields.non_negative("f", 0), 2.0**54, "spec.f: not a non-negative number: 1.8014398509481984e+16"),
    (lambda fields: fields.flag("f", default=True), "yes", "spec.f: neither true nor false: 'yes'"),
    (lambda fields: fields.quantity("f", parse_value), "many", "spec.f: not a quantity: 'many'"),
    (lambda fields: fields.quantity("f", parse_value), "-1", "spec.f: negative: '-1'"),
    (lambda fields: fields.time("f"), "noon", "spec.f: not a time: 'noon'"),
    (lambda fields: fields.time("f"), "2026-01-01T00:00:00", "spec.f: not a time: '2026-01-01T00:00:00'"),
    (lambda fields: fields.required_name("f"), "", "spec.f: not a name: ''"),
    (lambda fields: fields.required_name("f"), None, "spec.f: is missing"),
    (lambda fields: fields.texts("f"), ["a", 1], "spec.f[1]: not a string: 1"),
    (lambda fields: fields.pairs("f"), {"k": 1}, "spec.f.k: not a string: 1"),
    (lambda fields: fields.child("f"), [], "spec.f: not an object: []"),
    (lambda fields: list(fields.children("f")), [1], "spec.f[0]: not an object: 1"),
]


@pytest.mark.parametrize(("read", "value", "problem"), INVALID)
def test_problems(read: Callable[[FieldReader], object], value: object, problem: str) -> None:
    fields = reader(f=value)
    read(fields)
    assert fields.problems == [problem]


def test_unknown_fields() -> None:
    fields = reader(read=1, ignored=2, unknown=3)
    fields.number("read")
    fields.ignore("ignored")
    fields.report_unknown()
    assert fields.problems == ["spec.unknown: unknown field"]


def test_missing_fields() -> None:
    fields = reader(present=1, null=None)
    assert fields.report_missing("present", "null", "absent") is True
    assert fields.problems == ["spec.null: is missing", "spec.absent: is missing"]


def test_errors_of_functions_become_problems() -> None:
    fields = reader(nodeSelector=1)
    assert fields.read_whole(lambda obj: string_in(obj, "nodeSelector", ""), "d") == "d"
    assert fields.spec_field("nodeSelector", lambda spec: string_in(spec, "nodeSelector", "spec."), "d") == "d"
    assert fields.problems == ["spec.nodeSelector: not a string: 1"] * 2


def test_open_object() -> None:
    problems: list[str] = []
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "b"}, "spec": {"k": "v"}, "x": 1}
    namespace, name, spec = open_object(obj, problems)
    assert (namespace, name, spec.text("k")) == ("a", "b", "v")
    assert problems == ["x: unknown field"]


@given(st.dictionaries(st.sampled_from("abc"), JSON))
def test_a_reader_never_raises(obj: dict[str, Any]) -> None:
    fields = FieldReader(obj, "", [])
    for name in "abc":
        fields.text(name)
        fields.number(name)
        fields.texts(name)
        fields.pairs(name)
        fields.quantity(name, parse_value)
        for child in fields.children(name):
            child.report_unknown()
        fields.child(name).report_unknown()
