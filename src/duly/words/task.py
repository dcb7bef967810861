"""What a model is told that writes a workflow: its task, the wish, and what to correct (M9).

Law: it is told what the check found and where a trial stopped, and nothing that the trial read. A
     text from outside cannot speak to it (M3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duly.rules.source import Language
from duly.rules.writing import DraftFlaw, DraftProblem

FINDINGS_TOLD_MAX: Final = 20  # a model corrects these first


def write_task(guide: str, language: Language, *, is_change: bool) -> str:
    """Write the instructions of a model that writes a workflow."""
    return f"{guide}\n\n{TASK.format(language=language)}{CHANGE if is_change else ''}"


def write_wish(wish: str, source: str | None, language: Language, taken: Sequence[str]) -> str:
    """Write what the person wants, with the workflow that is to be changed."""
    if source is None:
        names = f"\n\nThese names are taken: {', '.join(taken)}." if taken else ""
        return f"Write a workflow that does this:\n\n{wish}{names}"
    return f"Change this workflow:\n\n```{language}\n{source}\n```\n\nThe change:\n\n{wish}"


def write_problems(problems: Sequence[DraftProblem]) -> str:
    """Write what is wrong with a draft, for the model that wrote it."""
    told = [_tell(each) for each in problems[:FINDINGS_TOLD_MAX]]
    return "\n".join([AGAIN, *told])


def _tell(problem: DraftProblem) -> str:
    where = f"line {problem.line}: " if problem.line else ""
    if problem.flaw is None:
        return f"- {where}{problem.rule}: {problem.text}"
    return f"- {where}{FLAWS[problem.flaw].format(text=problem.text)}"


TASK: Final = """\
# Your task

Write one workflow in {language} for the person who asks below. Answer with exactly one block of
code that holds the whole source, and nothing else in a block. Use the tools listed above and no
others. Ask for no more than the task needs: read little, change little, and write addresses, tables
and channels that the person names as constants. Take message ids from the outside, so that nothing
is done twice. Your source is checked, tried, and shown to the person, who decides about it.
"""
CHANGE: Final = """
You change a workflow that is in use. Keep its name, its topics and the names of its handlers.
Change nothing but what the person asks for.
"""
AGAIN: Final = (
    "The source was refused. Correct it, and answer with the whole source in one block again."
)
FLAWS: Final = {
    DraftFlaw.NO_BLOCK: "the answer has no block of code.",
    DraftFlaw.SEVERAL_BLOCKS: "the answer has several blocks; put the whole source into one.",
    DraftFlaw.NAME_TAKEN: "there is a workflow named {text} already; choose another name.",
    DraftFlaw.OTHER_NAME: "it must keep its name, {text}.",
    DraftFlaw.STOPPED: "when it was tried, the handler {text} failed or did not end.",
    DraftFlaw.REPEATS: (
        "when it was tried twice over the same data, the second time made {text} changes again; "
        "a message_id must stay the same for the same thing."
    ),
}
