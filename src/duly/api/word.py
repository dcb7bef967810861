"""The words of answers: what a status, a topic or a language can be."""

from __future__ import annotations

from duly.rules.account import OutputStatus as OutputStatus
from duly.rules.announcement import Topic as Topic
from duly.rules.delivery import OWN_SOURCE as OWN_SOURCE
from duly.rules.figure import FigureName as FigureName
from duly.rules.identity import is_whole as is_whole
from duly.rules.rename import REPLAYS as REPLAYS
from duly.rules.source import SUFFIXES as SUFFIXES
from duly.rules.source import Language as Language
from duly.rules.source import Source as Source
from duly.rules.standing import Code as Code
from duly.rules.standing import InputStatus as InputStatus
from duly.rules.standing import Standing as Standing
from duly.rules.word import Known as Known
from duly.rules.word import MutationStatus as MutationStatus
from duly.rules.word import Outcome as Outcome
from duly.rules.word import Status as Status
