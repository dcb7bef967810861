"""What the conformance suite calls, behind the face that Duly ships (decision 240).

    python -m tests.mcp.suite --project FOLDER mcp      # `duly mcp` with it

Law 1: route, guard, token, transport, handshake, limits and errors are those of `faces/mcp`, of
       `/mcp` and of `duly mcp`. Only the table of tools is another, and what a tool returns.
Law 2: it asks its client for nothing, as the server that it stands for (M5): there is no tool that
       samples or elicits.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

import mcp_types as types
from mcp.server.lowlevel.server import Server

import duly.faces.mcp.server as face
from duly.__main__ import main
from duly.api.registry import Scope
from duly.errors import RequestRefused
from duly.faces.mcp.server import AgentServer, Caller
from duly.faces.mcp.tool import Described, Tools

PICTURE: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SOUND: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
NOTHING: Final = {"type": "object", "properties": {}, "additionalProperties": False}
SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
TOOLS: Final[dict[str, Any]] = {
    "test_simple_text": NOTHING,
    "test_image_content": NOTHING,
    "test_audio_content": NOTHING,
    "test_embedded_resource": NOTHING,
    "test_multiple_content_types": NOTHING,
    "test_tool_with_logging": NOTHING,
    "test_tool_with_progress": NOTHING,
    "test_error_handling": NOTHING,
    "json_schema_2020_12_tool": SCHEMA,
}
PROMPTS: Final = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}
asking: ContextVar[Any] = ContextVar("asking")


class SuiteTools(Tools):
    """The suite's tools in place of the verbs."""

    def list_all(self, scope: Scope) -> tuple[Described, ...]:  # type: ignore[override]
        return tuple(
            Described(name, f"{name}.", schema, True, scope) for name, schema in TOOLS.items()
        )


class SuiteServer(AgentServer):
    """The face, with the suite's table."""

    def __init__(self, tools: Tools, *more: Any) -> None:
        super().__init__(SuiteTools(tools.verbs), *more)

    def build(self) -> Server[Any]:
        made = super().build()
        for method, takes, handler in (
            ("resources/list", types.PaginatedRequestParams, list_resources),
            ("resources/templates/list", types.PaginatedRequestParams, list_templates),
            ("resources/read", types.ReadResourceRequestParams, read_resource),
            ("resources/subscribe", types.SubscribeRequestParams, agree),
            ("resources/unsubscribe", types.UnsubscribeRequestParams, agree),
            ("prompts/list", types.PaginatedRequestParams, list_prompts),
            ("prompts/get", types.GetPromptRequestParams, get_prompt),
            ("logging/setLevel", types.SetLevelRequestParams, agree),
            ("completion/complete", types.CompleteRequestParams, complete),
        ):
            made.add_request_handler(method, takes, handler)
        return made

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        asking.set(ctx)
        return await super()._call(ctx, params)

    async def _carry_out(
        self, caller: Caller, name: str, args: dict[str, Any]
    ) -> types.CallToolResult:
        if name not in TOOLS:
            return await super()._carry_out(caller, name, args)
        if name == "test_error_handling":
            raise RequestRefused(code="too_many", subject=name, facts={"limit": 0, "unit": "calls"})
        if name == "test_tool_with_logging":
            for text in ("begun", "going on", "done"):
                params = types.LoggingMessageNotificationParams(level="info", data=text)
                said = types.LoggingMessageNotification(params=params)
                await asking.get().session.send_notification(said)
        if name == "test_tool_with_progress":
            ctx = asking.get()
            token, number = (ctx.meta or {}).get("progress_token", ""), str(ctx.request_id)
            for part in (0, 50, 100):
                await ctx.session.send_progress_notification(
                    token, part, 100, related_request_id=number
                )
        return types.CallToolResult(content=list(CONTENT.get(name, (text_of(name),))))


def text_of(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def file_of(uri: str, text: str = "A text.") -> types.EmbeddedResource:
    held = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    return types.EmbeddedResource(type="resource", resource=held)


PICTURED: Final = types.ImageContent(type="image", data=PICTURE, mime_type="image/png")
CONTENT: Final[dict[str, tuple[types.ContentBlock, ...]]] = {
    "test_image_content": (PICTURED,),
    "test_audio_content": (types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav"),),
    "test_embedded_resource": (file_of("test://embedded"),),
    "test_multiple_content_types": (text_of("All three:"), PICTURED, file_of("test://mixed")),
}


async def agree(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def complete(ctx: Any, params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["test"], total=1))


async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    made = [
        types.Resource(uri=f"test://{name}", name=name, mime_type=kind)
        for name, kind in (("static-text", "text/plain"), ("static-binary", "image/png"))
    ]
    return types.ListResourcesResult(resources=made)


async def list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    made = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
    return types.ListResourceTemplatesResult(resource_templates=[made])


async def read_resource(ctx: Any, params: Any) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri == "test://static-binary":
        blob = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PICTURE)
        return types.ReadResourceResult(contents=[blob])
    return types.ReadResourceResult(contents=[file_of(uri, f"Read from {uri}").resource])


async def list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    made = [
        types.Prompt(
            name=name,
            description=f"{name}.",
            arguments=[types.PromptArgument(name=each, required=True) for each in arguments],
        )
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=made)


async def get_prompt(ctx: Any, params: Any) -> types.GetPromptResult:
    given = params.arguments or {}
    content: list[Any] = [text_of(f"{params.name}: {given}")]
    if params.name == "test_prompt_with_embedded_resource":
        content.insert(0, file_of(given["resourceUri"]))
    if params.name == "test_prompt_with_image":
        content.insert(0, PICTURED)
    made = [types.PromptMessage(role="user", content=each) for each in content]
    return types.GetPromptResult(messages=made)


def stand_in() -> None:
    """Put the suite's table behind the face, in this process."""
    setattr(face, "AgentServer", SuiteServer)  # noqa: B010


if __name__ == "__main__":
    stand_in()
    main()
