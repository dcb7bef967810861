"""An example of daily life, played here: a host in a folder of its own, doubles for the services.

Law 1: no account is needed, nothing but loopback is reached, and nothing is left behind, except in
       a store that the caller names.
Law 2: what was done is counted twice: in the ledger, and at the doubles. The two must agree.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from duly.api.build import build_host
from duly.api.codec import to_json
from duly.api.project import FILE, Project, find_project
from duly.api.simulate import list_connectors
from duly.host import Host
from duly.rules.source import Language as Language
from duly.rules.standing import InputStatus
from duly.rules.value import Json
from duly.rules.word import MutationStatus
from duly.testing.crash_test import CrashTest, CrashTestReport, Props
from duly.testing.daily import BOTH as BOTH
from duly.testing.daily import DAILY as DAILY
from duly.testing.daily import SUFFIXES, DailyWorld, MadeThing, Tables
from duly.testing.daily import DailyExample as DailyExample

PAGE: Final = 1000
OWN_STORE: Final = "sqlite:///duly.db"  # a file in the folder of the example, which goes with it


@dataclass(frozen=True, slots=True)
class PlayedExample:
    """What came in, what was done, and what the services have now that they had not before.

    `changes` is what the doubles counted, `applied` what the ledger says; `open` is what has not
    come to its end.
    """

    inputs: Json
    outputs: Json
    made: tuple[MadeThing, ...]
    places: Mapping[str, str]
    changes: int
    applied: int
    open: int

    @property
    def is_agreed(self) -> bool:
        """Tell whether ledger and outside agree, and everything came to its end."""
        return self.changes == self.applied and self.open == 0


async def play_example(
    example: DailyExample, language: Language, url: str = OWN_STORE
) -> PlayedExample:
    """Play an example until nothing is due; `url` names the store, where what was done stays."""
    with open_example(example, language, url) as (world, project):
        async with build_host(project) as host:
            await _set_secrets(host, world)
            await host.deploy(example.source(language), grant=True, strict=True)
            for event in example.events:
                await host.publish(example.name, **event)  # type: ignore[arg-type]
            await host.drain()
            rows = await host.mutations(example.name, limit=PAGE)
            inputs = await host.inputs(example.name, limit=PAGE)
            outputs = await host.outputs(example.name, limit=PAGE)
        applied = [each for each in rows if each.status is MutationStatus.APPLIED]
        return PlayedExample(
            inputs=to_json(inputs[::-1]),
            outputs=to_json(outputs[::-1]),
            made=world.made(),
            places={name: str(table["url"]) for name, table in world.settings().items()},
            changes=world.changes(),
            applied=len(applied),
            open=sum(each.status is not InputStatus.DONE for each in inputs)
            + len(rows)
            - len(applied),
        )


async def _set_secrets(host: Host, world: DailyWorld) -> None:
    for connector, name, value in world.secrets():
        await host.set_secret(connector, name, value)


def crash_example(
    example: DailyExample,
    language: Language,
    *,
    crashes_max: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> CrashTestReport:
    """Let an example go through one crash after another; its reads are answered by the doubles."""
    with open_example(example, language) as (world, project):
        host = build_host(project)

        async def give() -> None:
            async with host:
                await _set_secrets(host, world)

        asyncio.run(give())
        with CrashTest(
            example.source(language),
            list_connectors(host),
            policy=project.config.policy,
            sandbox=project.config.sandbox,
            props=Props(example.events),
        ) as test:
            return test.run(crashes_max=crashes_max, progress=progress)


@contextmanager
def open_example(
    example: DailyExample, language: Language, url: str = OWN_STORE
) -> Iterator[tuple[DailyWorld, Project]]:
    """Start the doubles of an example, and make a project that uses them, for a while."""
    with TemporaryDirectory(prefix="duly-example-") as folder, DailyWorld(example) as world:
        home = Path(folder)
        write_project(home, example, language, world.settings(), url)
        yield world, find_project(folder, {}, home)


def write_project(
    home: Path, example: DailyExample, language: Language, tables: Tables, url: str
) -> None:
    """Write the settings and the workflow of an example."""
    (home / "workflows").mkdir()
    source = example.source(language)
    file = f"{example.stem}{SUFFIXES[language]}"
    (home / "workflows" / file).write_text(source.text, encoding="utf-8")
    lines = [f"url = {json.dumps(url)}", 'workflows = "workflows"']
    for name, table in tables.items():
        lines += ["", f"[connectors.{name}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    lines += ["", "[policy]", 'timezone = "UTC"', 'approvals = { "*" = "never" }', ""]
    (home / FILE).write_text("\n".join(lines), encoding="utf-8")
