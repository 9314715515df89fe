"""Files with the names of modules that the platform imports: whoever imports one of them fails, and says so."""

from pathlib import Path

SHADOWED = "imported in place of another module"
NAMES = ("secrets", "queue", "json", "tokenize", "yaml", "pydantic", "towpath_contracts")


def write_shadowing_modules(folder: Path) -> None:
    """Write a file for each of NAMES into *folder*; it leaves its name in `imported` there and raises ImportError."""
    for name in NAMES:
        lines = (
            f"open({str(folder / 'imported')!r}, 'a').write({name + ' '!r})",
            f"raise ImportError({SHADOWED!r})",
        )
        (folder / f"{name}.py").write_text("\n".join(lines) + "\n")


def imported(folder: Path) -> list[str]:
    """Return which of the files in *folder* were imported."""
    place = folder / "imported"
    return place.read_text().split() if place.exists() else []
