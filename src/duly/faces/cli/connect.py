"""`duly connect`: from a name to a service that is known to answer (K10, F4).

Law 1  A secret is typed unseen, goes into the store alone, and is never shown or written elsewhere.
Law 2  What a trial does outside is shown before, and made only after a yes.
Law 3  Settings are added below what a person wrote; nothing of theirs is changed unasked.
Law 4  Done again, it asks only for what is missing, proves what is not proven, and lets go on what
       waited for the connection.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from duly.api.build import build_host
from duly.api.command_text import describe_setting, tell_settings
from duly.api.connecting import (
    CONNECTORS,
    check_reach,
    compare,
    find_needs,
    list_kinds,
    list_settings,
    read_openapi,
    write_settings,
)
from duly.api.project import Project, find_project
from duly.api.settings_text import write_value
from duly.api.text import visible
from duly.errors import DulyError, RequestRefused
from duly.faces.cli.base import (
    EXIT_FAILED,
    Declined,
    Face,
    confirm,
    hint,
    is_terminal,
    pass_face,
    say,
    yes_option,
)
from duly.faces.cli.foreign import tell_foreign, tell_kind
from duly.faces.cli.oauth import sign_in
from duly.faces.cli.secret import read_secret
from duly.faces.cli.verb import JSON
from duly.words.asking import SET_UP_WORKS, say_fault, say_trial
from duly.words.oauth import FOUR
from duly.words.offered import show_offered
from duly.words.openapi import say_omission

SHOWN_MAX = 20  # omissions of a description


def show_kinds() -> None:
    """Name every kind of connector with where it comes from."""
    kinds = list_kinds()
    width = max(len(name) for name, _ in kinds)
    for name, kind in kinds:
        click.echo(visible(f"{name:{width}}  {'built in' if kind is None else tell_kind(kind)}"))


@click.command()
@click.argument("name", required=False)
@click.option(
    "--list",
    "is_listed",
    is_flag=True,
    help="List the kinds of connectors, or with a kind as NAME all its settings.",
)
@click.option("--use", metavar="KIND", help="The kind of connector, for one that is new.")
@click.option(
    "--set", "given", multiple=True, metavar="KEY=VALUE", help="A setting; a text, or TOML."
)
@click.option(
    "--openapi",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the operations of this description of the service (OpenAPI).",
)
@click.option(
    "--sign-in",
    "way",
    type=click.Choice(["browser", "paste", "device"]),
    default="browser",
    help="How to sign in at the provider, for a service that wants it. [browser]",
)
@click.option("--other-account", is_flag=True, help="Let another account than before sign in.")
@click.option("--no-proof", is_flag=True, help="Store settings and secrets, and try nothing.")
@yes_option
@pass_face
def connect(
    face: Face,
    name: str | None,
    is_listed: bool,
    use: str | None,
    given: Sequence[str],
    openapi: Path | None,
    way: str,
    other_account: bool,
    no_proof: bool,
    yes: bool,
) -> None:
    """Connect a service: ask for what it needs, keep its secrets, and prove that it can be asked.

    Settings go into duly.toml, below what is there; secrets go into the store and nowhere else.
    Where a service wants a sign-in, your browser opens the page of its provider. Without a browser
    here (--sign-in paste) you open the address elsewhere, and bring back where the browser ended.
    Then Duly tries each change that it may later have to ask the service about: it shows you one
    real call, and makes it if you say yes.

    \b
    Examples:
      duly connect --list sql
      duly connect mail --use mail
      duly connect shop --openapi shop.yaml
      duly connect notes --use mcp --set command=/usr/bin/notes-server
    """
    if is_listed:
        if name is None:
            show_kinds()
        else:
            for line in _tell_settings(face.project, name, "NAME"):
                click.echo(visible(line))  # a command that is broken into lines is not copied
        return
    if name is None:
        raise click.UsageError("Name the connection: duly connect NAME --use KIND.")
    project = _settings(face, name, use, _read_given(given), openapi, is_yes=yes)
    if (told := tell_foreign(project, name)) is not None:
        say(told)
    again = replace_face(face, project)
    _check_current(again, name)
    shown = _ask(again, name)
    signing = shown["sign_in"]
    granted = "" if signing is None else signing["secret"]
    for each in shown["secrets"]:
        if each["set_at"] is None and each["name"] != granted:
            value = read_secret(f"The secret {each['name']} of {name}")
            again.call("set_secret", connector=name, name=each["name"], value=value)
            say(f"The secret {each['name']} is kept.")
    if signing is not None:
        is_set = any(each["name"] == granted and each["set_at"] for each in shown["secrets"])
        sign_in(again, name, signing, is_set=is_set, way=way, is_other=other_account)
    shown = _ask(again, name)
    if shown["waiting"]:
        count = again.call("reconnect", connector=name)
        say(f"{count} that waited for {name} {'goes' if count == 1 else 'go'} on.")
    if project.config.connectors[name].get("use") == "mcp":
        _agree(again, name, is_yes=yes)
    if not no_proof:
        for each in shown["tools"]:
            if each["needs_trial"] and each["answering"]["proven_at"] is None:
                _prove(again, each, is_yes=yes)
    ended = _ask(again, name)
    for each in ended["tools"]:
        say(f"{each['tool']}: {each['answering']['text']}")
    if ended["can_check"]:
        _check(again, name)


def _check(face: Face, name: str) -> None:
    """Try its set-up; nothing outside is changed."""
    found: Any = face.call("check_connection", connector=name)
    for each in found["faults"]:
        hint(say_fault(name, each))
    if found["faults"]:
        raise click.exceptions.Exit(EXIT_FAILED)
    say(SET_UP_WORKS)


def replace_face(face: Face, project: Project) -> Face:
    """Return a face of the same call for settings that were written meanwhile."""
    return Face(face.given, face.is_debug, _project=[project])


def _check_current(face: Face, name: str) -> None:
    """Stop where the running host does not use the settings as they are: it would try others."""
    state: Any = face.call("settings")
    if name in state["added"] or name in state["changed"]:
        word = "know" if name in state["added"] else "use the new settings of"
        hint(
            f"The running host does not {word} {name} yet. Start it again (`duly restart`, or"
            f" Start again on the page), then go on: `duly connect {name}`."
        )
        raise click.exceptions.Exit(EXIT_FAILED)


def _ask(face: Face, name: str) -> dict[str, Any]:
    answer = face.call("connection", connector=name)
    assert isinstance(answer, dict), answer
    return answer


# -- Settings -----------------------------------------------------------------------------------


def _settings(
    face: Face,
    name: str,
    use: str | None,
    given: Mapping[str, Any],
    openapi: Path | None,
    *,
    is_yes: bool,
) -> Project:
    """Write what is missing, and return the project as it is then."""
    project = face.project
    there = project.config.connectors.get(name)
    if there is None and "google" in (use, None if use or openapi else name):
        raise click.UsageError(FOUR)
    made = None if openapi is None else read_openapi(openapi)
    if there is not None and use not in (None, there.get("use")):
        facts = {"use": str(there.get("use"))}
        raise RequestRefused(code="connected_otherwise", subject=name, facts=facts)
    values = dict(given)
    if made is not None and there is None:
        use = use or "http"
        if made.url is not None:
            values.setdefault("url", made.url)
        if made.auth is not None:
            values.setdefault("auth", made.auth)
    changes = [] if made is None else compare(project, name, made)
    chosen = [
        each
        for each in changes
        if not each.is_same and (not each.is_edited or _may_replace(each.name, is_yes=is_yes))
    ]
    table = None
    if there is None:
        use = use or _choose()
        table = {"use": use, **_needed(project, use, name, values)}
    operations = {**(there or {}).get("operations", {})}
    operations |= {each.name: dict(each.table) for each in chosen}
    whole = {**(table or {**(there or {}), **values})}
    if table is not None or values or chosen:
        _try(project, name, {**whole, **({"operations": operations} if operations else {})})
        keys = {} if table is not None else values
        file = write_settings(project, name, table=table, keys=keys, operations=chosen)
        say(f"Written to {file}: [connectors.{name}].")
    if chosen:
        said = "1 operation" if len(chosen) == 1 else f"{len(chosen)} operations"
        say(f"{said} written: {', '.join(each.name for each in chosen)}.")
    if made is not None:
        left = len(changes) - len(chosen)
        if left:
            say(f"Operations left as they are: {left}.")
        for omission in made.omitted[:SHOWN_MAX]:
            hint(f"Left out: {say_omission(omission)}.")
        if made.omitted[SHOWN_MAX:]:
            hint(f"Left out: {len(made.omitted) - SHOWN_MAX} more.")
    if there is not None and not values and not chosen:
        return project
    import os

    given_place = face.given or (None if project.file is None else str(project.file))
    return find_project(given_place, os.environ, project.folder)


def _try(project: Project, name: str, table: Mapping[str, Any]) -> None:
    """Build the connector before anything of it is written."""
    config = replace(project.config, connectors={name: dict(table)})
    host = build_host(replace(project, config=config), with_extensions=False)
    check_reach(project, name, table, host.connectors.origins().get(name))


def _needed(project: Project, use: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for each setting that was not given; without a terminal, say all of them at once."""
    found = dict(values)
    missing = [each for each in find_needs(project, use) if each.name not in found]
    if not is_terminal():
        if lacking := [each.name for each in missing if each.is_required]:
            for line in _tell_settings(project, use, name):
                hint(line)
            wanted = " ".join(f"--set {each}=…" for each in lacking)
            raise click.UsageError(f"{visible(use)} must be told more: {wanted}")
        return found
    for each in missing:
        label, like = describe_setting(use, each.name, each.label, each.example)
        example = f", such as {like}" if like else ""
        left = "" if each.is_required else " (may be empty)"
        asked = visible(f"{each.name}: {label}{example}{left}")
        typed: str = click.prompt(asked, default=None if each.is_required else "", err=True)
        if typed:
            found[each.name] = _read_table(typed)
    return found


def _tell_settings(project: Project, use: str, name: str) -> list[str]:
    """Name every setting of a kind, with a command that is complete."""
    found = list_settings(project, use)
    rows = [(each.name, each.label, each.example, each.is_required) for each in found]
    return tell_settings(use, name, rows)


def _read_table(typed: str) -> Any:
    """Read what was typed as a list or a table of TOML, where it is one; else it is a text."""
    try:
        value = tomllib.loads(f"value = {typed}")["value"]
    except tomllib.TOMLDecodeError:
        return typed
    return value if isinstance(value, dict | list) else typed


def _choose() -> str:
    if not is_terminal():
        raise click.UsageError(f"Say which kind it is: --use {'|'.join(CONNECTORS)}")
    kinds = ", ".join(CONNECTORS)
    chosen: str = click.prompt(f"Which kind of connector ({kinds})", err=True)
    return chosen


def _may_replace(name: str, *, is_yes: bool) -> bool:
    """Ask before an operation that a person has changed is written anew."""
    question = f"You have changed the operation {name}. Write it anew?"
    if is_yes or not is_terminal():
        return False  # a yes to everything is no yes to losing what a person wrote
    answer: bool = click.confirm(visible(question), default=False, err=True)
    return answer


def _read_given(given: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE: TOML where it is that, else a text."""
    found: dict[str, Any] = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--set {visible(each)}: write KEY=VALUE.")
        try:
            found[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = tomllib.loads(f"value = {write_value(text)}")["value"]
    return found


# -- What a server offers -----------------------------------------------------------------------


def _agree(face: Face, name: str, *, is_yes: bool) -> None:
    """Show the tools of an MCP server, and keep them after a yes (M7)."""
    offered: Any = face.call("offered", connector=name)
    waiting = [each for each in offered["tools"] if each["state"] != "agreed"]
    for each in offered["tools"]:
        for line in show_offered(each):
            say(line)
    if not offered["tools"]:
        hint(f"{name} offers no tools.")
        return
    if not waiting:
        say(f"Agreed to as it stands: {name} offers nothing else.")
    else:
        # A yes to everything, said beforehand, is no yes to what a server has changed since.
        is_first = all(each["state"] == "new" for each in waiting)
        if not is_first and not is_terminal():
            hint(f"To agree to exactly this: duly pin {name} {offered['hash']}")
        try:
            confirm("Agree to these tools as shown?", is_yes=is_yes and is_first)
        except Declined:
            say("Not agreed to: what is new or changed is not used.")
            return
        offered = face.call("pin", connector=name, hash=offered["hash"])
        say(f"Agreed to: {len(offered['tools'])} tools of {name}.")
    if offered["is_stale"]:
        hint("Scripts see them when the host was started again.")


# -- The proof ----------------------------------------------------------------------------------


def _prove(face: Face, tool: Mapping[str, Any], *, is_yes: bool) -> None:
    """Show what a trial does, and make it after a yes."""
    name = tool["tool"]
    last = tool["last"]
    if last is not None:
        voided = "" if last["is_current"] else " (before settings or secrets changed, or a restore)"
        said = f": {last['said'].rstrip('.')}" if last["said"] else ""
        hint(f"{name}: {say_trial(last['status'], last['fault'])}{said}{voided}.")
    args = None
    if tool["args"] is None:
        if not is_terminal():
            hint(f"{name} is not proven: give its arguments, `duly prove {name} --args JSON`.")
            return
        asked = f"Arguments for one real call of {name}, as JSON (empty: leave it unproven)"
        typed: str = click.prompt(visible(asked), default="", show_default=False, err=True)
        if not typed:
            return
        args = JSON.convert(typed, None, None)
    say(f"To prove that {name} can be asked, one real call is made:", style="bold")
    if tool["does"]:
        say(tool["does"], indent=2)
    for label, text in tool["form"] if args is None else [("args", str(args))]:
        say(f"{label}: {text}", indent=2)
    try:
        confirm("Make this call now?", is_yes=is_yes)
    except Declined:
        say("Not made.")
        return
    try:
        made: Any = face.call("prove", tool=name, args=args)
    except DulyError as error:
        hint(f"{name} is not proven: {error}")
        return
    ended = made["last"]
    said = f": {ended['said'].rstrip('.')}" if ended["said"] else ""
    say(f"{name}: {say_trial(ended['status'], ended['fault'])}{said}.")
