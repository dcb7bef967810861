"""Services that are wrong about one thing, for the connectors that are examined on them."""

from __future__ import annotations

import json
from typing import Any

from tests.connectors.shop import Ask, Shop


class Forgetful(Shop):
    """It takes a key twice, as most services do."""

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        self.forgets_keys = True
        return super().do(ask)


class Unique(Shop):
    """It refuses a key that it knows, as a unique column does."""

    def do(self, ask: Ask) -> Any:
        done = super().do(ask)
        return (409, {"error": "it exists"}, "") if "Replayed" in done[2] else done


class Crowd(Shop):
    """Others order too: four orders stand before those of the exam, so its own is on page 3."""

    def orders(self, space: str = "a") -> list[dict[str, Any]]:
        place = self.folder / space
        place.mkdir(parents=True, exist_ok=True)
        for number in range(4):
            other = place / f"{number + 1:04}.json"
            if not other.exists():
                made = {"item": "milk", "id": number, "key": f"other-{number}"}
                other.write_text(json.dumps(made))
        return super().orders(space)


class Changed(Forgetful):
    """What it shows of an order is not what was sent."""

    def orders(self, space: str = "a") -> list[dict[str, Any]]:
        return [self.show(each) for each in super().orders(space)]

    def show(self, order: dict[str, Any]) -> dict[str, Any]:
        return order


class Late(Shop):
    """Its search finds an order when it is asked for the second time."""

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        if ask.method == "POST":
            self._asked = 0
        return super().do(ask)

    def _list(self, ask: Ask, orders: list[dict[str, Any]]) -> tuple[int, Any, str]:
        self._asked = getattr(self, "_asked", 0) + 1
        return super()._list(ask, orders if self._asked > 1 else [])


class Lagging(Late, Forgetful):
    """Its search is late, and it takes a key twice."""


class UniqueLagging(Late, Unique):
    """Its search is late, and it refuses a key that it knows."""


class Renaming(Changed):
    """It gives an order an id of its own, as a relay does with a mail."""

    def show(self, order: dict[str, Any]) -> dict[str, Any]:
        return {**order, "key": f"own-{order['id']}"}


class Bare(Changed):
    """A person has removed the column with the keys."""

    def show(self, order: dict[str, Any]) -> dict[str, Any]:
        return {**order, "key": None}


class Edited(Changed):
    """A person has put the text of each order right, and the mark in it is gone."""

    def show(self, order: dict[str, Any]) -> dict[str, Any]:
        return {**order, "item": "Tea, please."}
