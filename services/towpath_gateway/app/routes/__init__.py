"""The HTTP operations, one file per noun.

A handler parses, checks the scope, asks one service and answers; it decides nothing about a run.
"""
