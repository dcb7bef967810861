"""What an annotation lets a script pass."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import GenericAlias
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Optional,
    TypedDict,
    Union,
)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.connectors.base import Call, Connector, mutation
from duly.connectors.registry import Registry
from duly.connectors.signature import ANYTHING, Address, json_types, parameters_of
from duly.errors import Invalid
from duly.rules.catalog import TYPES_OF, JsonType, Parameter, Tool, ToolKind, bind
from duly.rules.value import Json

if TYPE_CHECKING:
    from fractions import Fraction

S, I, N, B = JsonType.STRING, JsonType.INTEGER, JsonType.NUMBER, JsonType.BOOLEAN  # noqa: E741
L, O, NULL = JsonType.LIST, JsonType.OBJECT, JsonType.NULL  # noqa: E741

# A value of every type JSON has, and the annotation that means just this type.
PLAIN: dict[Any, tuple[JsonType, Json]] = {
    str: (S, "x"),
    int: (I, 1),
    float: (N, 1.5),
    bool: (B, True),
    list: (L, []),
    dict: (O, {}),
    None: (NULL, None),
}


class Row(TypedDict):
    name: str


def _spell(value: object) -> str:
    """Name a case the same way in every process: a set has no order."""
    return " or ".join(sorted(value)) if isinstance(value, set) else str(value)


@pytest.mark.parametrize(
    ("annotation", "types"),
    [
        *((annotation, {word}) for annotation, (word, _) in PLAIN.items()),
        (list[str], {L}),
        (typing.List[str], {L}),  # noqa: UP006  # authors still write it
        (typing.List, {L}),  # noqa: UP006  # authors still write it
        (Sequence[int], {L}),
        (list[dict[str, list[int]]], {L}),
        (dict[str, Any], {O}),
        (typing.Dict[str, int], {O}),  # noqa: UP006  # authors still write it
        (Mapping[str, str | None], {O}),
        (Row, {O}),
        (str | None, {S, NULL}),
        (Optional[int], {I, NULL}),  # noqa: UP045  # authors still write it
        (Union[str, list[str], None], {S, L, NULL}),  # noqa: UP007  # authors still write it
        (Literal["a", "b"], {S}),
        (Literal["a", 1, True, None], {S, I, B, NULL}),
        (Any, set()),
        (object, set()),
        (str | Any, set()),
        (list[Any] | None, {L, NULL}),
    ],
    ids=_spell,
)
def test_an_annotation_says_what_fits(annotation: object, types: set[JsonType]) -> None:
    """A1: arguments are checked against the signature."""
    assert json_types(annotation) == types


@pytest.mark.parametrize(
    "annotation",
    [
        *(bytes, tuple, tuple[str, ...], set[str], Path, complex, dict[int, str], list[Path]),
        *(dict[str, bytes], str | bytes, Callable[[], None], type, Literal[b"x"], S),
    ],
    ids=str,
)
def test_an_annotation_no_json_value_fits_is_refused(annotation: object) -> None:
    """A1: the author would wait for something that never comes."""
    with pytest.raises(TypeError):
        json_types(annotation)


def holders(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.builds(lambda each: GenericAlias(list, (each,)), inner)
    objects = st.builds(lambda each: GenericAlias(dict, (str, each)), inner)
    unions = st.builds(lambda one, other: Union[one, other], inner, inner)  # noqa: UP007
    return lists | objects | unions


KINDS: st.SearchStrategy[Any] = st.recursive(st.sampled_from(list(PLAIN)), holders, max_leaves=6)


@given(KINDS, KINDS)
def test_a_union_lets_through_what_either_side_does(one: Any, other: Any) -> None:
    """A1: no more and no less."""
    both = Union[one, other]  # noqa: UP007  # the bar does not join None with None
    assert json_types(both) == json_types(one) | json_types(other)
    assert json_types(both) == json_types(Union[other, one])  # noqa: UP007
    assert json_types(Union[one, Any]) == ANYTHING  # noqa: UP007


@given(KINDS, st.sampled_from([value for _, value in PLAIN.values()]))
def test_a_value_binds_where_its_type_is_named(annotation: Any, value: Json) -> None:
    """A1: what the annotation names passes, and an integer where a number is wanted."""
    takes = json_types(annotation)
    tool = Tool("a.b", ToolKind.READ, "a.read", parameters=(Parameter("x", types=takes),))
    if takes & TYPES_OF[type(value)]:
        assert bind(tool, {"x": value}) == {"x": value}
    else:
        with pytest.raises(Invalid, match=r"a\.b\.x is"):
            bind(tool, {"x": value})


@given(KINDS)
def test_text_and_extras_mean_the_same(annotation: Any) -> None:
    """A1: `from __future__ import annotations` and Annotated change nothing."""

    async def plain(self: object, x: Any) -> None: ...
    async def text(self: object, x: Any) -> None: ...
    async def extra(self: object, x: Any) -> None: ...

    plain.__annotations__["x"] = annotation
    text.__annotations__["x"] = "it"
    text.__globals__["it"] = annotation
    extra.__annotations__["x"] = Annotated[annotation, "words"]
    made = {parameters_of(each, "c.t", first=("self",)) for each in (plain, text, extra)}
    assert made == {(Parameter("x", types=json_types(annotation)),)}


def test_names_defaults_and_kinds_are_read() -> None:
    """A1: what has a default may be left out; what stands after a star is a parameter too."""

    async def method(this: object, one: str, two=(), *, three: int, four: float = 1.0): ...  # type: ignore[no-untyped-def]

    assert parameters_of(method, "c.t", first=("self",)) == (
        Parameter("one", True, frozenset({S})),
        Parameter("two", False, ANYTHING),
        Parameter("three", True, frozenset({I})),
        Parameter("four", False, frozenset({N})),
    )


def test_only_the_annotations_of_parameters_are_read() -> None:
    """A1: what is imported for the type checker alone describes the answer and stops nothing."""

    async def method(self: Fraction, call: Fraction, x: str) -> Fraction:
        raise NotImplementedError

    made = parameters_of(method, "c.t", first=("self", "call"))
    assert made == (Parameter("x", True, frozenset({S})),)


def test_the_type_of_all_json_is_anything_of_json() -> None:
    """A1: an alias that contains itself can be read."""

    async def method(self: object, x: Json, y: list[Json], z: dict[str, Json]) -> None: ...

    x, y, z = parameters_of(method, "c.t", first=("self",))
    assert x.types == {S, I, N, B, L, O, NULL}
    assert (y.types, z.types) == (frozenset({L}), frozenset({O}))


def test_a_wrapped_method_shows_the_signature_inside() -> None:
    """A1: a decorator of the author's own between the method and ours hides nothing."""

    def loud(function: Any) -> Any:
        @wraps(function)
        async def inner(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        return inner

    @loud
    async def method(self: object, x: Row) -> None: ...

    assert parameters_of(method, "c.t", first=("self",)) == (Parameter("x", True, frozenset({O})),)


async def no_self() -> None: ...
async def any_self(*args: object) -> None: ...
async def bad_bytes(self: object, x: bytes) -> None: ...
async def bad_name(self: object, x: Fraction) -> None: ...
async def bad_text(self: object, x: str) -> None: ...
async def bad_value(self: object, x: Any) -> None: ...
async def only_place(self: object, x: str, /) -> None: ...
async def many(self: object, *rest: str) -> None: ...
async def any_name(self: object, **rest: str) -> None: ...
async def camels(self: object, spreadsheetId: str) -> None: ...  # noqa: N803


bad_text.__annotations__["x"] = "str |"
bad_value.__annotations__["x"] = [str]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (no_self, "c.t must begin with (self)"),
        (any_self, "c.t must begin with (self)"),
        (bad_bytes, "c.t: the annotation of x cannot be used: no JSON value is a bytes"),
        (bad_name, "c.t: the annotation of x cannot be used: name 'Fraction' is not defined"),
        (bad_text, "c.t: the annotation of x cannot be used"),
        (bad_value, "c.t: the annotation of x cannot be used"),
        (only_place, "has no name a script could use"),
        (many, "c.t: *rest: 'str' has no name a script could use"),
        (any_name, "c.t: **rest: 'str' has no name a script could use"),
        (camels, "spreadsheetId"),
    ],
)
def test_a_signature_no_script_could_meet_is_refused(function: Any, says: str) -> None:
    """A1: with the method, the parameter, and what to write."""
    with pytest.raises(Invalid) as refused:
        parameters_of(function, "c.t", first=("self",))
    assert says in str(refused.value)


def test_a_mutation_begins_with_call() -> None:
    """A1: its name tells the host's argument from the script's."""

    async def other_name(self: object, request: object, x: str) -> None: ...
    async def by_name(self: object, *, call: object, x: str) -> None: ...
    async def short(self: object) -> None: ...
    async def by_place(self: object, call: object, /, x: str) -> None: ...

    for wrong in (other_name, by_name, short):
        with pytest.raises(Invalid, match=r"c\.t must begin with \(self, call\)"):
            parameters_of(wrong, "c.t", first=("self", "call"))
    made = parameters_of(by_place, "c.t", first=("self", "call"))
    assert made == (Parameter("x", True, frozenset({S})),)


def test_a_parameter_is_marked_as_an_address_by_its_annotation() -> None:
    """K12: by declaration, never by its name."""

    class Mails(Connector):
        name = "mails"

        @mutation
        async def send(
            self,
            call: Call,
            to: Address,
            cc: list[Address] | None = None,
            address: str = "",
        ) -> None: ...

    (tool,) = Registry([Mails()]).catalog.tools
    marked = {each.name: (each.is_address, sorted(each.types)) for each in tool.parameters}
    assert marked == {
        "to": (True, ["string"]),
        "cc": (True, ["list", "null"]),
        "address": (False, ["string"]),
    }
