"""What a host is told about one language model: `[models.NAME]` of `duly.toml`.

    [models.default]
    api = "openai"                        # the wire format; also of ollama and llama.cpp
    url = "http://127.0.0.1:11434/v1"
    model = "qwen3:8b"

Law: no model has an address by default, so no host reaches one that its settings do not name (M10).
The key is a secret of the host; the settings hold its name alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from duly.errors import ConfigError, short

TIMEOUT_S_MAX: Final = 280.0  # below the time of a tool that asks (300)
MAX_TOKENS_MAX: Final = 200_000
API_WORDS: Final = ("openai", "anthropic")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model: where it is, what it is called there, and what may be asked of it in a day.

    The two limits of a day hold for each workflow; what belongs to no workflow has an account of
    its own. `key` names the secret, `allow` hosts that may have private addresses besides those of
    this machine. Prices are per million tokens, in any currency; they only make the cost visible.
    """

    api: Literal["openai", "anthropic"] = "openai"
    url: str = ""
    model: str = ""
    key: str | None = None
    max_tokens: int = 4096
    calls_per_day: int = 200
    tokens_per_day: int = 1_000_000
    timeout_s: float = 120
    price_in: float = 0
    price_out: float = 0
    allow: tuple[str, ...] = ()
    ca: str | None = None

    def __post_init__(self) -> None:
        if self.api not in API_WORDS:
            facts: dict[str, object] = {"given": short(self.api), "known": [*API_WORDS]}
            raise ConfigError(code="not_one_of", subject="api", facts=facts)
        for name in ("url", "model", "key", "ca"):
            if getattr(self, name) == "":
                raise ConfigError(code="blank", subject=name)
        most = {"max_tokens": MAX_TOKENS_MAX, "timeout_s": TIMEOUT_S_MAX}
        for name in ("max_tokens", "calls_per_day", "tokens_per_day", "timeout_s"):
            number = getattr(self, name)
            if not 0 < number <= most.get(name, 2**53):
                facts = {"given": number, "least": 1, "most": most.get(name, 2**53)}
                raise ConfigError(code="out_of_range", subject=name, facts=facts)
        for name in ("price_in", "price_out"):
            if not 0 <= getattr(self, name) < math.inf:
                facts = {"given": getattr(self, name), "least": 0}
                raise ConfigError(code="wrong_number", subject=name, facts=facts)


NO_MODELS: Final[Mapping[str, ModelSettings]] = MappingProxyType({})
