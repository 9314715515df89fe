"""The tools of MCP servers, served by a worker like any other tools.

A server is a stranger. Its tools are denied until a rule names them, its words about them are data, its hints give
no rights, a definition that changed holds the calls, and nothing that it does or fails to do ends the worker.
"""
