"""Access: the table of C2, both variants, and the topics a handler may name."""

from __future__ import annotations

from itertools import product

import pytest

from duly.errors import Invalid
from duly.rules.access import (
    OPERATION_OF,
    MutateReads,
    Operation,
    Step,
    check_access,
    check_publishes,
    check_subscribed,
    is_allowed,
)
from duly.rules.catalog import ToolKind

# The rules' own table, written down a second time: operation, then producer to next.
C2 = """
    read        yes yes no     no
    read_by_id  yes yes policy no
    mutation    no  no  yes    no
    peek        no  yes no     no
    get_by_ids  no  yes no     no
    publish     yes no  no     yes
"""
WRITTEN = {
    (Operation(row[0]), step): word
    for row in (line.split() for line in C2.strip().splitlines())
    for step, word in zip(Step, row[1:], strict=True)
}
VARIANTS: tuple[MutateReads, ...] = ("none", "by_id")


@pytest.mark.parametrize("mutate_reads", VARIANTS)
@pytest.mark.parametrize(("operation", "step"), list(product(Operation, Step)))
def test_a_step_may_do_what_the_table_says(
    operation: Operation, step: Step, mutate_reads: MutateReads
) -> None:
    """C2: every cell of the table, in both variants."""
    word = WRITTEN[operation, step]
    expected = word == "yes" or (word == "policy" and mutate_reads == "by_id")
    assert is_allowed(operation, step, mutate_reads) is expected


def test_a_producer_may_read_and_publish_and_nothing_else() -> None:
    """P1: mutation, peek and get_by_ids are not for producers."""
    allowed = {operation for operation in Operation if is_allowed(operation, Step.PRODUCE)}
    assert allowed == {Operation.READ, Operation.READ_BY_ID, Operation.PUBLISH}


def test_a_forbidden_call_is_refused_with_the_steps_that_may_do_it() -> None:
    """C2: the sentence says who called what, and where it belongs."""
    with pytest.raises(Invalid) as refused:
        check_access(Operation.MUTATION, Step.PREPARE, "sheets.append_row")
    assert str(refused.value) == (
        "sheets.append_row: the step prepare may not change anything outside. Do it in mutate."
    )
    with pytest.raises(Invalid, match="Do it in produce or prepare"):
        check_access(Operation.READ, Step.NEXT, "gmail.search")


def test_an_allowed_call_passes() -> None:
    """C2: the policy variant opens exactly one cell."""
    check_access(Operation.MUTATION, Step.MUTATE, "sheets.append_row")
    check_access(Operation.READ_BY_ID, Step.MUTATE, "gmail.get", "by_id")
    with pytest.raises(Invalid):
        check_access(Operation.READ_BY_ID, Step.MUTATE, "gmail.get", "none")


def test_every_kind_of_tool_has_its_operation() -> None:
    """C2: no tool can slip past the table."""
    assert {kind: OPERATION_OF[kind].value for kind in ToolKind} == {k: k.value for k in ToolKind}


def test_a_topic_that_is_not_subscribed_is_refused() -> None:
    """T7: a consumer reads its own topics only."""
    check_subscribed("peek", "mail", ("mail",))
    with pytest.raises(Invalid, match=r'peek: .* "mial".* Did you mean "mail"'):
        check_subscribed("peek", "mial", ("mail",))


def test_a_topic_that_is_not_declared_is_refused() -> None:
    """W4: no topic springs into being."""
    check_publishes("row", ("mail", "row"), None)
    with pytest.raises(Invalid, match=r'"rows" is not declared\. Did you mean "row"'):
        check_publishes("rows", ("mail", "row"), None)


def test_a_handler_that_lists_its_topics_is_held_to_the_list() -> None:
    """W3: publishes is enforced when it is present, also when it is empty."""
    check_publishes("row", ("mail", "row"), ("row",))
    for publishes in (("mail",), ()):
        with pytest.raises(Invalid, match='does not name "row"'):
            check_publishes("row", ("mail", "row"), publishes)
