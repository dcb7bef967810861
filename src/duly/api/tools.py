"""What scripts of a project may call, and what their languages lack."""

from __future__ import annotations

from duly.api.build import build_host
from duly.api.project import Project
from duly.connectors.registry import Registry as Registry
from duly.rules.catalog import JsonType as JsonType
from duly.rules.catalog import Parameter as Parameter
from duly.rules.catalog import Tool as Tool
from duly.rules.catalog import ToolKind as ToolKind
from duly.rules.catalog import camel as camel
from duly.rules.shape import in_javascript as in_javascript
from duly.script import guide
from duly.script import lacking as lacking
from duly.script.guide import in_python as in_python
from duly.script.javascript import LACKING as LACKING
from duly.script.stubs import JAVASCRIPT_TYPES as JAVASCRIPT_TYPES
from duly.script.stubs import PYTHON_TYPES as PYTHON_TYPES
from duly.script.stubs import javascript_types as javascript_types
from duly.script.stubs import python_stubs as python_stubs


def find_tools(project: Project) -> Registry:
    """Return the connectors of a project, and what scripts may call; nothing is opened."""
    return build_host(project, with_extensions=False).connectors


def write_guide(project: Project, language: str | None = None) -> str:
    """Write the page for a language model, with the tools and the approvals of a project."""
    registry, policy = find_tools(project), project.config.policy
    tools = [(each, registry.describe(each.name)) for each in registry.catalog.tools]
    return guide.write_guide(tools, language, zone=policy.timezone, approvals=policy.approvals)
