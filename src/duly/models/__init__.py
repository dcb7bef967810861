"""Questions to language models: counted, asked, checked and recorded (M1–M4)."""

from duly.models.agent import find_agent
from duly.models.asking import Models, make_models
from duly.models.repairer import choose_repairer

__all__ = ["Models", "choose_repairer", "find_agent", "make_models"]
