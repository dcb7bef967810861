"""The example with two hosts in containers says what hosts of a fleet need."""

from __future__ import annotations

import re
from typing import Any

import yaml

from duly.config import is_server, load, name_store
from tests.house import ROOT

FOLDER = ROOT / "examples" / "fleet"
GIVEN = {"DULY_KEY": "a2V5", "DB_PASSWORD": "p4ss"}


def services() -> dict[str, Any]:
    found = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    assert isinstance(found, dict)
    return found


def test_two_hosts_share_one_server_and_one_key() -> None:
    """H1, H12: the same program, the same database, the same key, no password in the file."""
    hosts = {name: each for name, each in services().items() if name.startswith("host")}
    assert len(hosts) == 2
    one, two = hosts.values()
    assert one == two
    assert one["environment"]["DULY_KEY"].startswith("${DULY_KEY:?")
    assert "${DB_PASSWORD:?" in one["environment"]["DULY_URL"]
    assert one["restart"] == "always"  # a host that lapses with a call out ends (H2)
    assert int(one["stop_grace_period"].removesuffix("s")) > 30  # R7: calls out are awaited
    assert services()["db"]["image"].startswith("postgres:")


def test_the_environment_of_a_host_is_one_that_duly_reads() -> None:
    """H1: every variable is known, and the address names the service of the database."""
    environ = {
        name: re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: GIVEN[found[1]], text)
        for name, text in services()["host-one"]["environment"].items()
    }
    config = load(FOLDER / "duly.toml", environ)
    assert is_server(config.url)
    assert name_store(config.url) == "postgresql://duly@db/duly"  # without the password
    assert config.url.split("@")[1].split("/")[0] in services()
