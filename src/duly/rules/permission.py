"""What a workflow may touch, and who must agree first (A1–A4).

Law 1  The checks run in one order, and the first that stops a call decides: nothing was sent and
       there is no ledger row (A1).
Law 2  What is not granted is missing; a repair never grants itself anything (A2).
Law 3  Of all approval policies that fit a tool the strictest holds (A3), and an approval is for
       exactly the call and the inputs whose hash was shown (A4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from duly.errors import Invalid, PermissionDenied, short
from duly.rules.access import OPERATION_OF, MutateReads, Step, check_access
from duly.rules.address import parse_address
from duly.rules.catalog import Risk, Tool, ToolKind, bind
from duly.rules.url import match_url
from duly.rules.value import Json, digest

WEB: Final = re.compile(r"(https?|\*)://")
FIRST: Final = re.compile(r"first:([1-9][0-9]{0,3})")
FIRST_EXAMPLE: Final = "first:5"
AFTER_MODEL: Final = "after_model"
PAST_EVERY_FIRST: Final = 10_000  # calls; no rule asks about so many first ones
# Before the name of a tool, among the limits of a grant. No argument is called so: a host of a
# version that does not know it finds no call that fits, and sends nothing (decision 610).
ASKS: Final = "asks:"
NOTHING_CHOSEN: Final[Mapping[str, str]] = MappingProxyType({})


# -- Grants (A1, A2) ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to use a capability; `where` maps an argument to the glob its strings must match.

    `asks` maps a tool to the rule by which the person who gave the leave wants to be asked (A3).
    """

    capability: str
    mutations_per_day: int | None = None
    where: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    asks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        limit = self.mutations_per_day
        if limit is not None and (type(limit) is not int or limit < 0):
            raise Invalid(
                code="wrong_value",
                path="mutations_per_day",
                facts={"wanted": "count_or_none", "given": short(limit)},
            )


@dataclass(frozen=True, slots=True)
class Envelope:
    """Everything a workflow was granted; of several grants of a capability one is enough."""

    grants: tuple[Grant, ...] = ()

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the capabilities that were granted, with or without limits."""
        return frozenset(grant.capability for grant in self.grants)

    @property
    def asks(self) -> Mapping[str, str]:
        """Return by which rule the person wants to be asked about a tool; the strictest of all."""
        found: dict[str, str] = {}
        for tool, word in (each for grant in self.grants for each in grant.asks.items()):
            found[tool] = max(found.get(tool, ""), word, key=strictness)
        return found

    def asks_for(self, tool: Tool) -> Mapping[str, str]:
        """Return the rule that stands with the grants for exactly this tool."""
        return _only(tool, self.asks)


def _only(tool: Tool, chosen: Mapping[str, str]) -> Mapping[str, str]:
    # By its name alone: another tool may have a capability of that name (decision 610).
    return {tool.name: chosen[tool.name]} if tool.name in chosen else NOTHING_CHOSEN


def strictness(word: str) -> int:
    """Tell how much a rule asks that may stand with a grant; "" asks nothing (A3).

    >>> sorted(["always", "", "first:12", "first:5"], key=strictness)
    ['', 'first:5', 'first:12', 'always']
    """
    found = FIRST.fullmatch(word)
    if found is not None:
        return int(found.group(1))
    return PAST_EVERY_FIRST if word else 0  # a word that is not known here asks each time


def check_chosen(word: object, path: str) -> None:
    """Refuse a rule that may not stand with a grant; one that never asks looks like safety."""
    if not isinstance(parse_approval(word, path), First) and word != Approval.ALWAYS:
        facts = {"given": short(word), "known": [Approval.ALWAYS, FIRST_EXAMPLE]}
        raise Invalid(code="not_one_of", path=path, facts=facts)


def check_matching(capability: str, mutations_per_day: int | None, matching: Json) -> Grant:
    """Read a grant that another store kept, or refuse what no store of Duly writes."""
    if not isinstance(matching, dict) or not all(isinstance(e, str) for e in matching.values()):
        raise Invalid(code="wrong_value", path="where", facts={"wanted": "glob_by_argument"})
    grant = read_grant(capability, mutations_per_day, matching)
    for tool, word in grant.asks.items():
        check_chosen(word, f"asks.{tool}")
    return grant


def read_grant(
    capability: str, mutations_per_day: int | None, matching: Mapping[str, Json]
) -> Grant:
    """Read a grant as it is kept: its globs, and the rules by which a person is asked."""
    texts = {name: str(text) for name, text in matching.items()}
    asks = {n.removeprefix(ASKS): text for n, text in texts.items() if n.startswith(ASKS)}
    where = {n: text for n, text in texts.items() if not n.startswith(ASKS)}
    return Grant(capability, mutations_per_day, where, asks)


def write_matching(grant: Grant) -> dict[str, Json]:
    """Write the globs of a grant as they are kept, and the rules by which a person is asked."""
    return {**grant.where, **{f"{ASKS}{tool}": word for tool, word in grant.asks.items()}}


def keep_asks(matching: Mapping[str, Json]) -> dict[str, Json]:
    """Take out of a grant as it is kept the rules by which a person is asked."""
    return {name: word for name, word in matching.items() if name.startswith(ASKS)}


class Lack(StrEnum):
    """What a person would have to grant."""

    CAPABILITY = "capability"
    WHERE = "where"
    MUTATIONS_PER_DAY = "mutations_per_day"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Nothing stands in the way; the arguments under the tool's own names."""

    args: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Missing:
    """The envelope does not reach so far: the run waits for a grant (F4)."""

    lack: Lack
    capability: str
    error: PermissionDenied


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The script must not do this, here or so: a logic failure (F1)."""

    error: Invalid


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """A person must agree to exactly this call first (A3)."""

    args: Mapping[str, Json]


Permission = Allowed | Missing | Forbidden | NeedsApproval


def check_grant(
    tool: Tool, args: Mapping[str, Json], envelope: Envelope, mutations_today: int
) -> Allowed | Missing:
    """Look for a grant that covers this call; `mutations_today` are those of its capability."""
    capability = tool.capability
    held = [grant for grant in envelope.grants if grant.capability == capability]
    if not held:
        return _missing(Lack.CAPABILITY, "not_granted", tool)
    fitting = [grant for grant in held if fits(grant.where, tool, args)]
    if not fitting:
        limits = [f"{name}={glob}" for name, glob in held[0].where.items()]
        return _missing(Lack.WHERE, "beyond_grant", tool, limits=limits)
    if tool.kind is ToolKind.MUTATION and all(
        _is_used_up(each, mutations_today) for each in fitting
    ):
        return _missing(Lack.MUTATIONS_PER_DAY, "used_up", tool, count=mutations_today)
    return Allowed(args)


def _missing(lack: Lack, code: str, tool: Tool, **facts: object) -> Missing:
    told = {"tool": tool.name, **facts}
    error = PermissionDenied(code=code, subject=tool.capability, facts=told)
    return Missing(lack, tool.capability, error)


def check_addresses(tool: Tool, args: Mapping[str, Json]) -> None:
    """Refuse an argument that is declared as an address and is not exactly one (K12)."""
    for parameter in tool.parameters:
        value = args.get(parameter.name)
        if parameter.is_address and value is not None:
            path = f"{tool.name}.{parameter.name}"
            for each in value if isinstance(value, list) else (value,):
                if not isinstance(each, str):
                    raise Invalid(code="wrong_value", path=path, facts={"wanted": "addresses"})
                parse_address(each, path)


def fits(where: Mapping[str, str], tool: Tool, args: Mapping[str, Json]) -> bool:
    """Tell whether every argument that a glob is given for is within it (A1)."""
    addresses = {each.name for each in tool.parameters if each.is_address}
    return all(
        _matches(args.get(name), glob, is_address=name in addresses) for name, glob in where.items()
    )


def _matches(value: Json, glob: str, *, is_address: bool) -> bool:
    """Match a string, or every string of a list; what cannot be matched is outside (A1).

    An address is matched as it was parsed. A glob with an @ matches one address only, even if the
    tool declares none: "*@acme.com" must let no second one through, nor one that only looks like
    one (K12). A glob that begins like a web address matches one URL, part by part (K4).
    """
    if isinstance(value, list):
        return bool(value) and all(
            isinstance(each, str) and _matches(each, glob, is_address=is_address) for each in value
        )
    if not isinstance(value, str):
        return False
    if not is_address and WEB.match(glob):
        return match_url(glob, value)
    if not is_address and "@" not in glob:
        return fnmatchcase(value, glob)
    try:
        parsed = parse_address(value, "where", is_named_fine=is_address)
    except Invalid:
        return False
    local, at, domain = glob.rpartition("@")
    return fnmatchcase(parsed, f"{local}{at}{domain.lower()}")


def _is_used_up(grant: Grant, mutations_today: int) -> bool:
    return grant.mutations_per_day is not None and mutations_today >= grant.mutations_per_day


def missing_capabilities(granted: Collection[str], used: Collection[str]) -> tuple[str, ...]:
    """List the capabilities that a source uses and that are not granted yet (A2)."""
    return tuple(sorted(set(used) - set(granted)))


# -- Approval (A3, A4) --------------------------------------------------------------------------


class Approval(StrEnum):
    """When a person is asked before a mutation, from the least strict to the strictest."""

    NEVER = "never"
    ABOVE_MEDIUM = "above:medium"
    ABOVE_LOW = "above:low"
    ALWAYS = "always"


ASKED_AT: Final[Mapping[Approval, frozenset[Risk]]] = MappingProxyType(
    {
        Approval.NEVER: frozenset(),
        Approval.ABOVE_MEDIUM: frozenset({Risk.HIGH}),
        Approval.ABOVE_LOW: frozenset({Risk.MEDIUM, Risk.HIGH}),
        Approval.ALWAYS: frozenset(Risk),
    }
)


@dataclass(frozen=True, slots=True)
class First:
    """Ask for the first so many calls of each tool of a major version, then no more (A3)."""

    calls: int


@dataclass(frozen=True, slots=True)
class AfterModel:
    """Ask for every call of a run that a language model answered (M4)."""


def parse_approval(word: object, path: str) -> Approval | First | AfterModel:
    """Read one word of an approval policy."""
    if word == AFTER_MODEL:
        return AfterModel()
    if isinstance(word, str) and (found := FIRST.fullmatch(word)):
        return First(int(found.group(1)))
    try:
        return Approval(word)  # type: ignore[arg-type]  # an object that is no word is refused too
    except ValueError:
        raise Invalid(
            code="not_one_of",
            path=path,
            facts={"given": short(word), "known": [*Approval, AFTER_MODEL]},
        ) from None


def approval_for(tool: Tool, *policies: Mapping[str, str]) -> Approval:
    """Find the strictest policy by risk whose glob fits the tool or its capability (A3)."""
    fitting = [each for each in _fitting(tool, policies) if isinstance(each, Approval)]
    # The stricter of two policies asks at more risks.
    return max(fitting, key=lambda each: len(ASKED_AT[each]), default=Approval.NEVER)


def first_calls(tool: Tool, *policies: Mapping[str, str]) -> int:
    """Return how many calls of a tool a new major version asks for; the most of all policies."""
    fitting = [each.calls for each in _fitting(tool, policies) if isinstance(each, First)]
    return max(fitting, default=0) if tool.kind is ToolKind.MUTATION else 0


def asks_after_model(tool: Tool, *policies: Mapping[str, str]) -> bool:
    """Tell whether a policy asks where a model answered the run (M4)."""
    fitting = _fitting(tool, policies) if tool.kind is ToolKind.MUTATION else []
    return any(isinstance(each, AfterModel) for each in fitting)


def _fitting(
    tool: Tool, policies: Iterable[Mapping[str, str]]
) -> list[Approval | First | AfterModel]:
    return [
        parse_approval(word, f"approvals.{glob}")
        for policy in policies
        for glob, word in policy.items()
        if _is_fitting(tool, glob)
    ]


@dataclass(frozen=True, slots=True)
class Asks:
    """When a person is asked before a change, and by which rules (A3).

    `first` are the calls of each major version that are asked about, and `after_model` says that a
    run that a model answered is; neither adds anything where `each_time` is true. `rules` are all
    of the settings that fit the tool, also those that do not ask: each glob with its word. `chosen`
    is the word that stands with the grant of the workflow; of all these the strictest holds.
    """

    tool: str
    capability: str
    risk: Risk
    each_time: bool
    first: int
    after_model: bool
    rules: tuple[tuple[str, str], ...]
    chosen: str = ""


def tell_asks(
    tool: Tool,
    *settings: Mapping[str, str],
    chosen: Mapping[str, str] = NOTHING_CHOSEN,
    may_ask_model: bool = False,
) -> Asks | None:
    """Tell when a person is asked before a call of a tool; None of a read (A3).

    `chosen` are the rules that stand with the grants. `may_ask_model` says that a model may answer
    any run of the workflow (M4).
    """
    if tool.kind is not ToolKind.MUTATION:
        return None
    policies = (*settings, _only(tool, chosen))
    return Asks(
        tool=tool.name,
        capability=tool.capability,
        risk=tool.risk,
        each_time=is_approval_needed(
            tool, *policies, calls_before=PAST_EVERY_FIRST, has_asked_model=may_ask_model
        ),
        first=first_calls(tool, *policies),
        after_model=asks_after_model(tool, *policies),
        rules=tuple(
            (glob, word)
            for policy in settings
            for glob, word in policy.items()
            if _is_fitting(tool, glob)
        ),
        chosen=chosen.get(tool.name, ""),
    )


def list_asking(tool: Tool, *policies: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """List the rules that fit a tool and may ask a person: each glob with its word (A3)."""
    return tuple(
        (glob, word)
        for policy in policies
        for glob, word in policy.items()
        if _is_fitting(tool, glob) and _may_ask(tool, parse_approval(word, f"approvals.{glob}"))
    )


def _may_ask(tool: Tool, word: Approval | First | AfterModel) -> bool:
    return not isinstance(word, Approval) or tool.risk in ASKED_AT[word]


def _is_fitting(tool: Tool, glob: str) -> bool:
    return fnmatchcase(tool.name, glob) or fnmatchcase(tool.capability, glob)


def is_approval_needed(
    tool: Tool,
    *policies: Mapping[str, str],
    calls_before: int = 0,
    has_asked_model: bool = False,
) -> bool:
    """Tell whether a person must agree first; a read changes nothing and needs no yes (A3).

    `calls_before` are the calls of this tool that its major version has made. `has_asked_model`
    says that a model answered the run (M4).
    """
    if tool.kind is not ToolKind.MUTATION:
        return False
    if has_asked_model and asks_after_model(tool, *policies):
        return True
    if calls_before < first_calls(tool, *policies):
        return True
    return tool.risk in ASKED_AT[approval_for(tool, *policies)]


def major_of(version: str) -> str:
    """Return the major number of a version: that of 3.1 is 3 (W8)."""
    return version.partition(".")[0]


def proposal_hash(tool: str, args: Mapping[str, Json], inputs: Json) -> str:
    """Hash the observed call and the pinned inputs, which is what an approval is for (A4, L11)."""
    return digest({"tool": tool, "args": dict(args), "inputs": inputs})


# -- The order of checks (A1) -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """A tool call of a script, and all that decides on it."""

    tool: Tool
    step: Step
    named: Mapping[str, Json]
    positional: Sequence[Json] = ()
    envelope: Envelope = Envelope()
    mutations_today: int = 0
    approvals: tuple[Mapping[str, str], ...] = ()
    mutate_reads: MutateReads = "none"
    calls_before: int = 0
    has_asked_model: bool = False


def permit(request: Request) -> Permission:
    """Put a call through access, arguments, grant and approval, in this order (A1)."""
    tool = request.tool
    try:
        check_access(OPERATION_OF[tool.kind], request.step, tool.name, request.mutate_reads)
        args = bind(tool, request.named, request.positional)
        check_addresses(tool, args)
    except Invalid as error:
        return Forbidden(error)
    granted = check_grant(tool, args, request.envelope, request.mutations_today)
    if isinstance(granted, Missing):
        return granted
    if is_approval_needed(
        tool,
        *request.approvals,
        request.envelope.asks_for(tool),
        calls_before=request.calls_before,
        has_asked_model=request.has_asked_model,
    ):
        return NeedsApproval(args)
    return Allowed(args)
