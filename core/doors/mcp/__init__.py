"""MCP: the tools that agents call, over standard input and output or streamable HTTP, on the official SDK."""
