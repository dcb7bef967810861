"""The MCP server of a host: its verbs as tools for an agent (M5); the SDK is an extra."""
