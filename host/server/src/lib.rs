//! The HTTP API of Opcell, its page, and operations as MCP tools.
