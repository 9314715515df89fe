"""Blocks that a test takes from a page one by one, beside those of pages that are played from beginning to end.

Such a test runs the block as it stands: it is what a service is started with, what is sent, or what has to be printed.
"""

from tests.docs_site.code_blocks import CodeBlock, all_blocks

TAKEN_BY: dict[str, str] = {}
"""The test that takes a block, by `PAGE: how it begins`."""


def begins_so(key: str, block: CodeBlock) -> bool:
    """Say whether *key*, a page and how a block of it begins, is about *block*; `PAGE:` is about all blocks of it."""
    page, _, begin = key.partition(":")
    return page == block.page and block.text.startswith(begin.strip())


def taken(key: str) -> CodeBlock:
    """Return the one block that *key* of `TAKEN_BY` is about."""
    assert key in TAKEN_BY, f"name the test that takes {key!r} in TAKEN_BY"
    (block,) = [one for one in all_blocks() if begins_so(key, one)]
    return block


def taken_by(block: CodeBlock) -> str:
    """Return the test that takes *block*; nothing where none does."""
    return next((test for key, test in TAKEN_BY.items() if begins_so(key, block)), "")
