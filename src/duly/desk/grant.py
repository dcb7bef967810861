"""What a person may grant: capabilities this host knows, with limits that can hold (A1).

Law: a grant that could never fit a call, or never bind one, is refused by name; a wrong word in a
limit would otherwise look like safety.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from duly.desk.sight import read_args, show_error, tool_of
from duly.errors import Invalid, NotFound, see, short
from duly.rules import permission
from duly.rules.catalog import Catalog, Tool, ToolKind
from duly.rules.export import GrantLine
from duly.rules.permission import Envelope, Grant, Lack, check_chosen, check_matching
from duly.rules.schedule import DAY_MS
from duly.rules.value import Json, decode, nearest
from duly.rules.word import Waits
from duly.store.people import GrantRow
from duly.store.record import RunRow
from duly.store.survey import CountedSends, Survey

GLOB_CHARS_MAX = 500


def check_grant(
    catalog: Catalog,
    capability: object,
    mutations_per_day: object,
    where: object,
    asks: object = None,
) -> Grant:
    """Read a grant as it was given, or refuse it with what is wrong."""
    tools = find_tools(catalog, capability)
    is_read = all(each.kind is not ToolKind.MUTATION for each in tools)
    if mutations_per_day is not None and is_read:
        raise Invalid(
            code="limits_nothing", path="mutations_per_day", facts={"capability": capability}
        )
    globs = read_globs(where)
    arguments = sorted({each.name for tool in tools for each in tool.parameters})
    for name in globs:
        if name not in arguments:
            raise Invalid(
                code="unknown_argument",
                path=f"where.{name}",
                facts={"of": capability, **nearest(name, arguments)},
                next=see("tools"),
            )
    rules = _read_rules(tools, asks)
    return Grant(capability, mutations_per_day, globs, rules)  # type: ignore[arg-type]  # checked


def find_tools(catalog: Catalog, capability: object) -> list[Tool]:
    """Return the tools of a capability, or refuse one that this host does not know."""
    tools = [each for each in catalog.tools if each.capability == capability]
    if not tools:
        known = sorted({each.capability for each in catalog.tools})
        raise NotFound(
            code="no_capability",
            subject=str(capability),
            facts=nearest(str(capability), known),
            next=see("tools"),
        )
    return tools


@dataclass(frozen=True, slots=True)
class RightsGiven:
    """What is allowed with a version: all that it uses, or what was shown of these rights."""

    all: bool = False
    seen: Mapping[str, str] = field(default_factory=dict)

    def check(self, used: Iterable[str]) -> None:
        """Refuse a right that a source does not use: it would be dropped in silence."""
        for each in self.seen.keys() - {*used}:
            facts = {"given": short(each), "known": sorted(used)}
            raise Invalid(code="not_one_of", path="rights", facts=facts)

    def choose(self, lacking: Iterable[str]) -> dict[str, str | None]:
        """Return what of that which is lacking is given, each with what was shown of it."""
        return {each: self.seen.get(each) for each in lacking if self.all or each in self.seen}


def read_given(*, grant: bool, rights: object) -> RightsGiven:
    """Read what is to be allowed with a version."""
    if rights is None:
        return RightsGiven(grant)
    if not isinstance(rights, Mapping) or not all(isinstance(e, str) for e in rights.values()):
        raise Invalid(code="wrong_value", path="rights", facts={"wanted": "word_by_capability"})
    return RightsGiven(grant, dict(rights))


def check_seen(seen: object) -> str | None:
    """Refuse a word for what was shown that is no text."""
    if not isinstance(seen, str | None):
        raise Invalid(code="wrong_value", path="seen", facts={"wanted": "seen_word"})
    return seen


def _read_rules(tools: Sequence[Tool], asks: object) -> dict[str, str]:
    """Read by which rule a person is asked before each change of a capability (A3)."""
    if asks is None:
        return {}
    if not isinstance(asks, Mapping):
        raise Invalid(code="wrong_value", path="asks", facts={"wanted": "rule_by_tool"})
    changes = _list_changes(tools)
    for tool, word in asks.items():
        if tool not in changes:
            facts = {"given": short(tool), "known": changes}
            raise Invalid(code="not_one_of", path="asks", facts=facts)
        check_chosen(word, f"asks.{tool}")
    return dict(asks)


def _list_changes(tools: Iterable[Tool]) -> list[str]:
    return [each.name for each in tools if each.kind is ToolKind.MUTATION]


def to_json(grant: Grant, *, keeps_asks: bool) -> dict[str, Json]:
    """Write what a grant says, for the record of the act (A6); rules that stay are not named."""
    asks: dict[str, Json] = {} if keeps_asks else {"asks": dict(grant.asks)}
    return {"mutations_per_day": grant.mutations_per_day, "where": dict(grant.where), **asks}


def check_choice(
    catalog: Catalog, capability: object, asks: object, seen: object
) -> tuple[dict[str, str], dict[str, str]]:
    """Read what a person chose for the tools of a grant, and what was shown of each (A3)."""
    given, shown = _read_words(asks, "asks"), _read_words(seen, "seen")
    if not given:
        raise Invalid(code="missing", path="asks", facts={"of": "choose_asks"})
    for tool in sorted(given.keys() ^ shown.keys()):
        path = f"seen.{tool}" if tool in given else f"asks.{tool}"
        raise Invalid(code="missing", path=path, facts={"of": "choose_asks"})
    check_grant(catalog, capability, None, None, {t: word for t, word in given.items() if word})
    changes = _list_changes(each for each in catalog.tools if each.capability == capability)
    for tool in (each for each in given if each not in changes):
        facts = {"given": short(tool), "known": changes}
        raise Invalid(code="not_one_of", path="asks", facts=facts)
    return given, shown


def _read_words(given: object, path: str) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(e, str) for e in given.values()):
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "rule_by_tool"})
    return dict(given)


def check_carried(catalog: Catalog, row: GrantLine) -> None:
    """Refuse a grant of a file that no store of Duly writes (A1, A3).

    Of a capability that this host does not have, the tools are not known.
    """
    grant = check_matching(row.capability, row.mutations_per_day, decode(row.matching))
    read_globs(grant.where)
    tools = [each for each in catalog.tools if each.capability == row.capability]
    if tools:
        _read_rules(tools, grant.asks)


def read_row(row: GrantRow) -> Grant:
    """Read a grant as it is kept."""
    matching = cast("dict[str, Json]", decode(row.matching))
    return permission.read_grant(row.capability, row.mutations_per_day, matching)


def read_globs(where: object) -> dict[str, str]:
    """Read globs by argument, or refuse them."""
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise Invalid(code="wrong_value", path="where", facts={"wanted": "glob_by_argument"})
    for name, glob in where.items():
        if (
            not isinstance(name, str)
            or not isinstance(glob, str)
            or not 0 < len(glob) <= GLOB_CHARS_MAX
        ):
            raise Invalid(
                code="wrong_length",
                path="where",
                subject=f"where.{name}",
                facts={"least": 1, "most": GLOB_CHARS_MAX},
            )
    return dict(where)


def find_grant(survey: Survey, workflow_id: str, capability: str) -> Grant | None:
    """Read the grant a workflow has of a capability."""
    rows = survey.grants(workflow_id)
    return next((read_row(row) for row in rows if row.capability == capability), None)


def find_chosen(rows: Iterable[GrantRow]) -> Mapping[str, str]:
    """Return by which rule a person wants to be asked about each tool of a workflow (A3)."""
    return Envelope(tuple(map(read_row, rows))).asks


def find_lacks(survey: Survey, catalog: Catalog) -> dict[str, Lack | None]:
    """Say what the grant lacks of each run that waits for one; None, if the outside refused (A1).

    What was used up is counted in the day the run began to wait, so that midnight changes no word.
    """
    waiting = [each for each in survey.runs if each.waits == Waits.GRANT]
    tools = {each.id: _find_tool(survey, catalog, each) for each in waiting}
    used = survey.count_sent(
        _sent(survey, run, name)
        for run in waiting
        if (tool := tools[run.id]) is not None
        for name in (each.name for each in catalog.tools if each.capability == tool.capability)
    )
    return {run.id: _lack(survey, run, tools[run.id], used.get(run.id, 0)) for run in waiting}


def find_words(survey: Survey) -> dict[str, str]:
    """Return for each run that waits for a grant the word for what stands of that right (A6)."""
    waiting = [each for each in survey.runs if each.waits == Waits.GRANT]
    places = [
        (each.workflow_id, survey.workflows[each.workflow_id].name, each.waits_on or "")
        for each in waiting
    ]
    words = {(each.workflow_id, each.capability): each.word for each in survey.rights(places)}
    return {each.id: words[each.workflow_id, each.waits_on or ""] for each in waiting}


def _find_tool(survey: Survey, catalog: Catalog, run: RunRow) -> Tool | None:
    try:
        return catalog.find(tool_of(run, survey.held(run.id)) or "")
    except Invalid:
        return None


def _sent(survey: Survey, run: RunRow, tool: str) -> CountedSends:
    since = run.updated_at - run.updated_at % DAY_MS
    until = since + 2 * DAY_MS  # a later time was written by a clock that was wrong
    held = survey.held(run.id)
    return CountedSends(
        run.id, run.workflow_id, tool, since, until, "" if held is None else held.id
    )


def _lack(survey: Survey, run: RunRow, tool: Tool | None, used: int) -> Lack | None:
    grant = find_grant(survey, run.workflow_id, run.waits_on or "")
    if grant is None or tool is None:
        return Lack.CAPABILITY
    held = survey.held(run.id)
    args = decode(held.args) if held is not None else _args_of(run)
    if not isinstance(args, dict):
        args = {}
    decision = permission.check_grant(tool, args, Envelope((grant,)), used)
    return decision.lack if isinstance(decision, permission.Missing) else None


def _args_of(run: RunRow) -> Json:
    return None if run.error is None else read_args(show_error(run.error).args)
