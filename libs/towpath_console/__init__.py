"""The web console: pages for people, drawn from what the HTTP API answers to whoever looks.

It sees nothing that the API would not tell the same caller, and changes nothing but through it.
"""
