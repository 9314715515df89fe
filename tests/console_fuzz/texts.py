"""Texts that nobody should be able to do anything with: what others name or say, and a page shows.

Elements and attributes of these texts are named `hostile-…`, so that one that came alive is known by its name.
"""

OWNED = "window.owned=1"

TEXTS: dict[str, str] = {
    "script": f"<script>{OWNED}</script><hostile-tag onclick=\"{OWNED}\">x</hostile-tag>",
    "handler": f"\"><img src=x onerror=\"{OWNED}\"><hostile-tag>' hostile-attribute='1' onfocus='{OWNED}' autofocus='",
    "unquoted": f" hostile-attribute=1 onmouseover={OWNED} tabindex=1 ",
    "textarea": f"</textarea></title></pre></code></style></script><hostile-tag><script>{OWNED}</script><!--",
    "comment": "--><hostile-tag></hostile-tag><!-- ]]> <![CDATA[ <?php",
    "javascript": f"javascript:{OWNED}",
    "javascript in disguise": f"\tJaVaScRiPt\n:{OWNED}//%0a{OWNED}",
    "other host": "//evil.example/x?a=1&b=2#c",
    "other host with a backslash": "/\\evil.example/x",
    "address": "https://evil.example/<hostile-tag>?q=\"><hostile-tag>",
    "data": "data:text/html,<hostile-tag><script>alert(1)</script>",
    "template": "{{7*7}}${7*7}#{7*7}<%=7*7%>{%for a in b%}{{self.__init__}}{{ caller.scopes }}",
    "format": "%s%n%d{0.__class__}{}{name}\\u003chostile-tag>\\x3chostile-tag>",
    "bidi": "refund \u202e12,1 ot\u202c \u2066isolated\u2069 \u2068never closed \u200fend \u061c",
    "hidden": "or\u200bde\u200crs\u2060.\ufefffind\u00ad\u034f\u3164\u115f\u180e\U000e0041\U000e0042\ufe0f\U000e0101",
    "combining": "a" + "\u0301\u0316\u0489" * 400,
    "controls": "a\x00b\x01c\x08d\x1b[31me\x7ff\x9bg\u2028h\u2029i\rj",
    "paths": "../../..//../etc/passwd%2e%2e%2f%00?message=<hostile-tag>&back=//evil.example#x",
    "svg": "<svg/onload=\"x\"><hostile-tag><use href=\"data:image/svg+xml,<svg id='x'/>#x\"/></svg><math><mtext>",
    "htmx": "<hostile-tag hx-get=\"/v1\" hx-trigger=\"load\" hx-on:click=\"x\" hx-sse:connect=\"/\"></hostile-tag>",
    "event stream": "\n\ndata: <hostile-tag></hostile-tag>\n\nevent: live\nid: 7\nretry: 1\n\r\n\r\n",
    "surrogate": "half of a pair \ud83d and the other \ude00",
    "wide": "W" * 400 + "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "empty": "",
    "blank": " \t\n ",
    "numberlike": "1e999",
}  # fmt: skip
"""Short ones, by what is tried."""

LONG_TEXTS: dict[str, str] = {
    "a megabyte of words": "all these words are read by nobody <hostile-tag> " * 21_000,
    "a megabyte without a space": "x" * 1_048_576,
    "a megabyte of marks": "<&\"'>" * 210_000,
    "a megabyte of line ends": "\n" * 1_048_576,
}

HUGE = float("inf")
"""What 1e999 is read as."""


def deep(levels: int) -> object:
    """Return lists in lists."""
    found: object = "<hostile-tag>"
    for _ in range(levels):
        found = [found]
    return found


def values() -> dict[str, object]:
    """Return values, of which a page expects none, for the places where anything may stand."""
    return {
        "deep": deep(400),
        "many members": {f"<hostile-tag {number}>": number for number in range(10_000)},
        "huge numbers": [HUGE, -HUGE, 10**400, -(2**63), 1e-320, float("nan")],
        "nothing": None,
        "a list where an object is": [[], {}, [None], True, 0, ""],
    }
