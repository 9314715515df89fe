"""What is said of a file that a person named and that is not there."""

from pathlib import Path

from towpath_contracts.problems.near_names import MAX_NAMES, suggest_name


def missing_file(path: Path) -> str:
    """Say that *path* is not there, and which file beside it may have been meant."""
    if not path.parent.is_dir():
        return f"{path} is not there, nor is its folder {path.parent}"
    try:
        files = [one for one, _ in zip(path.parent.iterdir(), range(MAX_NAMES), strict=False)]
    except OSError:  # a folder that nobody may list
        files = []
    by_stem = {one.stem: one for one in sorted(files, key=lambda one: one.suffix == path.suffix)}
    # By stems: an ending that two names share says nothing.
    hint = suggest_name(path.stem, by_stem, shown=lambda near: str(by_stem[near]))
    return f"{path} is not there{hint}"
