"""What the connectors of a host can do, for the other hosts of its fleet (H7).

Law: it is read from the catalogue, and anew when that is another; a connector is asked nothing.
"""

from __future__ import annotations

from duly.connectors.base import Connector
from duly.connectors.registry import Registry
from duly.rules.catalog import Catalog
from duly.rules.share import Offers, offers_of
from duly.rules.value import Json


class Offering:
    """The tools of a host, and what tells the settings of its connectors apart."""

    def __init__(self, outside: Registry) -> None:
        self._outside = outside
        self._known: tuple[Catalog, Offers] | None = None

    def __call__(self) -> Offers:
        """Return what the host offers now."""
        catalog = self._outside.catalog
        if self._known is None or self._known[0] is not catalog:
            tools = [each.name for each in catalog.tools]
            named = zip(self._outside.connectors, self._outside, strict=True)
            settings = {name: self._describe(name, each) for name, each in named}
            self._known = catalog, offers_of(tools, settings)
        return self._known[1]

    def _describe(self, name: str, connector: Connector) -> Json:
        """Return its class, and on what account and service each tool of it relies (K10)."""
        kind = type(connector)
        tools = (each.name for each in self._outside.catalog.tools)
        own = sorted(each for each in tools if each.partition(".")[0] == name)
        relied_on: list[Json] = [[each, self._outside.basis_of(each)] for each in own]
        return [f"{kind.__module__}.{kind.__qualname__}", relied_on]
