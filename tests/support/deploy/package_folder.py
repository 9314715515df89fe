"""What is installed here as wheels in a folder: packages are installed from it, and no registry is asked."""

import shutil
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement


def fill_package_folder(folder: Path, wheel: Path, extra: str) -> None:
    """Put *wheel* into *folder*, and what it needs with *extra*: as it is installed here, without what was compiled."""
    shutil.copy(wheel, folder)
    for found in needed(f"towpath[{extra}]"):
        if found.name != "towpath":
            _pack(found, folder)


def needed(requirement: str) -> list[metadata.Distribution]:
    """Return the installed distributions that *requirement* leads to here, that of its own name first."""
    known, found, left = set[tuple[str, str]](), dict[str, metadata.Distribution](), [Requirement(requirement)]
    while left:
        wanted = left.pop()
        for extra in wanted.extras or {""}:
            if (wanted.name, extra) not in known:
                known.add((wanted.name, extra))
                found[wanted.name] = metadata.distribution(wanted.name)
                given = map(Requirement, found[wanted.name].requires or ())
                left += [one for one in given if one.marker is None or one.marker.evaluate({"extra": extra})]
    return [*found.values()]


def _pack(found: metadata.Distribution, folder: Path) -> None:
    tag = next(
        line.removeprefix("Tag: ") for line in str(found.read_text("WHEEL")).splitlines() if line.startswith("Tag: ")
    )
    name = found.name.replace("-", "_").replace(".", "_")
    files = dict(_files(found, f"{name}-{found.version}.data/scripts"))
    record = next(place for place in files if place.endswith(".dist-info/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{tag}.whl", "w") as packed:
        for place, path in files.items():
            if place != record:
                packed.write(path, place)
        packed.writestr(record, "".join(f"{place},,\n" for place in files))


def _files(found: metadata.Distribution, scripts: str) -> Iterator[tuple[str, Path]]:
    made = {one.name for one in found.entry_points if one.group == "console_scripts"}
    for file in found.files or ():
        path = Path(str(file.locate()))
        if "__pycache__" in file.parts or file.name in {"INSTALLER", "REQUESTED", "direct_url.json"}:
            continue
        if file.parts[0] != "..":
            yield file.as_posix(), path
        elif file.parent.name == "bin" and file.name not in made:
            yield f"{scripts}/{file.name}", path
