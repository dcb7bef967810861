"""What a connector needs to be told before it can be used; a face asks a person for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """One setting of a connector: its key in duly.toml, and how a person is asked for it.

    A setting that is not required is asked for all the same, and may be left empty. Secrets are no
    settings: the connector names them when it is built.
    """

    name: str
    label: str
    example: str = ""
    is_required: bool = True
