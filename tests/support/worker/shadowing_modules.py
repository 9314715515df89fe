"""Files with the names of modules that the platform imports: whoever imports one of them fails, and says so."""

from collections.abc import Sequence
from pathlib import Path

SHADOWED = "imported in place of another module"
OPTIONAL = ("brotli", "brotlicffi", "backports", "griffecli", "prune_source")
"""What libraries import if it is there, and nothing here installs."""
NAMES = ("secrets", "queue", "json", "tokenize", "yaml", "pydantic", "towpath_contracts")


def write_shadowing_modules(folder: Path, names: Sequence[str] = NAMES) -> None:
    """Write a file for each of *names* into *folder*; it leaves its name in `imported` there and raises ImportError."""
    for name in names:
        lines = (
            f"open({str(folder / 'imported')!r}, 'a').write({name + ' '!r})",
            f"raise ImportError({SHADOWED!r})",
        )
        (folder / f"{name}.py").write_text("\n".join(lines) + "\n")


def imported(folder: Path) -> list[str]:
    """Return which of the files in *folder* were imported."""
    place = folder / "imported"
    return place.read_text().split() if place.exists() else []
