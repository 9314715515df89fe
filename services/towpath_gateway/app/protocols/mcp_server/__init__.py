"""The platform as an MCP server at `/mcp`: networks, runs, approvals and the audit as tools.

Every tool asks the HTTP API in this process with the credential of the request that called it, so that scopes, roles,
projects, limits, refusals and records are the API's own. No state is kept between requests: a run is its own memory,
and any replica answers. A call that is given up, or whose stream breaks, changes nothing for its run.
"""
