"""Policies that are picked by one word."""
