"""The HTTP operations, one file per noun.

Law: a handler parses, checks the scope, asks one service and answers; it decides nothing about a run (design §3).
"""
