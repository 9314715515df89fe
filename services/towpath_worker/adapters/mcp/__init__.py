"""The tools of MCP servers, served by a worker like any other tools (docs/mcp.md).

A server is not trusted. Its tools are denied until a rule names them, its texts are data, its hints give no rights, a
changed definition holds the calls back, and nothing that it does or fails to do ends the worker.
"""
