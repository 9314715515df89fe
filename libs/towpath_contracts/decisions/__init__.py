"""Decisions: what a model is asked, what it answers, what it costs."""
