"""Handlers of plan and workflow runs: steps that are child runs."""
