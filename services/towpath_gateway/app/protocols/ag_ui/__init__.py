"""AG-UI 1.0: runs for clients that draw agents, such as CopilotKit and `@ag-ui/client`; nothing has to be installed."""
