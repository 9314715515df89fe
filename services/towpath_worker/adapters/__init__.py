"""Outside things of a worker: blobs, files of a run, the tool log, MCP servers."""
