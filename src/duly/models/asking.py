"""Asks a language model: counts first, sends once, checks the answer, and records it (M2, M3).

Law 1  A question leaves only after it is counted on the disk, with the tokens it can take. Each
       further one, also the one that corrects a misfit, is counted like the first.
Law 2  Nothing is sent twice in silence. An error is raised to the caller, who decides; a lost
       answer keeps its reservation.
Law 3  Secrets are taken out of what goes out, of what comes back, and so of what is recorded (A5).
Law 4  Within a chain of runs the same question is answered from the record. The caller gets what
       was recorded, also the first time, so that both are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from duly.connectors.base import Connector
from duly.connectors.llm import Llm
from duly.connectors.model import Model, ModelReply
from duly.env import Env
from duly.errors import (
    AuthNeeded,
    ConfigError,
    ConnectorError,
    NotSent,
    PermissionDenied,
    Refused,
    Stale,
)
from duly.model_settings import ModelSettings
from duly.observed import SpanKind, note, span
from duly.rules.model import (
    MESSAGES_MAX,
    QUESTION_BYTES_MAX,
    SHOWN_CHARS,
    Message,
    ModelAnswer,
    ModelQuestion,
    Purpose,
    QuestionStatus,
    Speaker,
    choose_model,
    cost_of,
    identify,
    reserve_tokens,
    size_of,
)
from duly.rules.model_schema import check_schema, find_misfit
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.shown import cut
from duly.rules.value import Json, canonical, check_json
from duly.store import Store
from duly.store.model import AskedQuestion, EndedQuestion, RecordedAnswer

MISFITS_MAX: Final = 1  # how often a model is told that its answer does not fit
REFUSING: Final = 4  # the first digit of a status that says: not taken
NO_CHARACTER: Final = "\ufffd"
LIMIT_DEPTH: Final = 20  # of an answer that should be JSON
AS_JSON: Final = (
    "Answer with JSON alone, without any other word. It must be valid against this JSON Schema: "
)
MISFIT: Final = "This answer is not valid JSON, or not valid against the schema ({where}). Again: "

log = logging.getLogger("duly.models")


class Models:
    """The models of one host."""

    def __init__(
        self, env: Env, store: Store, models: Mapping[str, Model], secrets: Redactor
    ) -> None:
        self._env = env
        self._store = store
        self._models = models
        self.settings = {name: each.settings for name, each in models.items()}
        self._secrets = secrets

    def has_model(self, purpose: Purpose, name: str | None = None) -> bool:
        """Tell whether a question for this purpose would go anywhere."""
        return choose_model(ModelQuestion(purpose, "", (), model=name), self.settings) is not None

    async def ask(self, question: ModelQuestion) -> ModelAnswer:
        """Count, ask, check and record; an answer that does not fit is asked for once more."""
        name = choose_model(question, self.settings)
        if name is None:
            wanted = question.model or question.purpose.value
            raise Refused(code="model_missing", subject=wanted)
        question = self._prepared(question)
        settings = self.settings[name]
        digest = identify(question, name, settings)
        begun = 0
        if question.chain is not None:
            found = await self._store.find_answer(question.chain, digest)
            if found is not None and not found.misfits:
                return self._recorded(found, question)
            begun = 0 if found is None else found.misfits % (MISFITS_MAX + 1)
            if found is not None and begun:
                # A kill came between the correction and its answer: nothing else is asked again.
                question = _told(question, found.answer)
        for misfits in range(begun, MISFITS_MAX + 1):
            question_id = await self._count(question, name, digest)
            with span(SpanKind.MODEL, name, question=question_id):
                reply = await self._send(question_id, question, name)
                taken, given = _tokens(reply) or (0, 0)
                note(tokens_in=taken, tokens_out=given)
            value, where = _read(reply.text, question.schema)
            if where is None:
                return await self._keep(question_id, question, name, reply, value)
            shown = self._clean(reply.text)
            misfit = EndedQuestion(QuestionStatus.ANSWERED, shown, "model_misfit", _tokens(reply))
            await self._end(question_id, misfit)
            if misfits < MISFITS_MAX:
                question = _told(question, shown)
        raise Refused(code="model_misfit", subject=name, facts={"where": where})

    # -- The steps --------------------------------------------------------------------------------

    def _prepared(self, question: ModelQuestion) -> ModelQuestion:
        """Check the limits of a question, and take every secret out of it."""
        if question.schema is not None:
            check_schema(question.schema)
            schema = canonical(question.schema).decode()
            asked = f"{question.instructions}\n\n{AS_JSON}{schema}"
            question = replace(question, instructions=asked)
        if size_of(question) > QUESTION_BYTES_MAX or len(question.messages) > MESSAGES_MAX:
            facts = {"limit": QUESTION_BYTES_MAX, "unit": "bytes"}
            raise Refused(code="too_long", subject="question", facts=facts)
        said = tuple(
            replace(each, text=redact_text(each.text, self._secrets)) for each in question.messages
        )
        instructions = redact_text(question.instructions, self._secrets)
        return replace(question, instructions=instructions, messages=said)

    async def _count(self, question: ModelQuestion, name: str, digest: str) -> str:
        """Write a question down before it leaves; past the budget it does not (M2)."""
        settings = self.settings[name]
        question_id = self._env.new_id("question")
        shown = "\n\n".join((question.messages[-1].text, question.instructions))
        asked = AskedQuestion(
            question_id,
            question.workflow_id,
            question.run_id,
            question.chain,
            name,
            question.purpose,
            digest,
            cut(shown, SHOWN_CHARS),
            reserve_tokens(question, settings),
        )
        await self._store.ask_model(
            asked,
            calls_max=settings.calls_per_day,
            tokens_max=settings.tokens_per_day,
            now=self._env.now_ms(),
        )
        return question_id

    async def _send(self, question_id: str, question: ModelQuestion, name: str) -> ModelReply:
        """Send once; what is certain to have taken no tokens frees its reservation (law 2)."""
        model = self._models[name]
        is_free = False
        try:
            try:
                response = await model.exchange(question)
            except (NotSent, AuthNeeded, PermissionDenied, Refused):
                is_free = True
                raise
            is_free = response.status // 100 == REFUSING
            return await model.read_reply(response)
        except ConnectorError as error:
            tokens = (0, 0) if is_free else None
            ended = EndedQuestion(QuestionStatus.FAILED, fault=error.code, tokens=tokens)
            await self._end(question_id, ended)
            raise

    async def _keep(
        self, question_id: str, question: ModelQuestion, name: str, reply: ModelReply, value: Json
    ) -> ModelAnswer:
        """Record an answer without secrets, and return it as it is recorded (law 4)."""
        clean = redact(value, self._secrets)
        text = reply.text if question.schema is None else canonical(clean).decode()
        text = self._clean(text)
        tokens = _tokens(reply)
        await self._end(
            question_id, EndedQuestion(QuestionStatus.ANSWERED, answer=text, tokens=tokens)
        )
        used = tokens or (0, 0)
        cost = cost_of(self.settings[name], *used)
        return ModelAnswer(text, clean, name, *used, cost)

    def _clean(self, text: str) -> str:
        """Take out of an answer every secret, and the one character that not every store keeps."""
        return redact_text(text.replace("\0", NO_CHARACTER), self._secrets)

    async def _end(self, question_id: str, ended: EndedQuestion) -> None:
        try:
            await self._store.end_question(question_id, ended, now=self._env.now_ms())
        except Stale:
            # Retention, or hundreds of later questions, took it away; the day has counted it.
            log.info("question %s is no longer kept", question_id)

    def _recorded(self, found: RecordedAnswer, question: ModelQuestion) -> ModelAnswer:
        value = None if question.schema is None else msgspec.json.decode(found.answer)
        return ModelAnswer(found.answer, value, found.model, 0, 0, 0.0, is_recorded=True)


def make_models(
    settings: Mapping[str, ModelSettings], connectors: Iterable[Connector]
) -> dict[str, Model]:
    """Make the models of the settings; refuse a connector that asks one which is not there."""
    for each in connectors:
        if isinstance(each, Llm) and each.asks_model:
            wanted = ModelQuestion(Purpose.LLM, "", (), model=each.model)
            if choose_model(wanted, settings) is None:
                named = each.model or f"[connectors.{each.name}]"
                raise ConfigError(code="model_missing", subject=named)
    return {name: Model(name, each) for name, each in settings.items()}


def _read(text: str, schema: Json) -> tuple[Json, str | None]:
    """Read an answer; return its value and, if it does not fit, where."""
    if schema is None:
        return None, None if text.strip() else "answer: empty"
    body = text.strip()
    if body.startswith("```") and body.endswith("```"):
        # Many models put JSON into a block of code, also when they are told not to.
        body = body.partition("\n")[2].removesuffix("```")
    try:
        value: Json = msgspec.json.decode(body)
        check_json(value, "answer", limit_bytes=QUESTION_BYTES_MAX, depth=LIMIT_DEPTH)
    except Exception as error:  # what a stranger wrote: any fault of it is no JSON
        return None, f"answer: {type(error).__name__}"
    return value, find_misfit(value, schema)


def _told(question: ModelQuestion, answer: str) -> ModelQuestion:
    """Return the question with the answer that did not fit, and where it did not."""
    where = _read(answer, question.schema)[1] or "answer"
    more = (
        Message(Speaker.ASSISTANT, answer or "(empty)"),
        Message(Speaker.USER, MISFIT.format(where=where) + question.messages[-1].text),
    )
    return replace(question, messages=(*question.messages, *more))


def _tokens(reply: ModelReply) -> tuple[int, int] | None:
    if reply.tokens_in is None or reply.tokens_out is None:
        return None  # the service does not say: the reservation stays
    if not reply.tokens_in or (reply.text and not reply.tokens_out):
        return None  # it does not count, for no text takes none
    return reply.tokens_in, reply.tokens_out
