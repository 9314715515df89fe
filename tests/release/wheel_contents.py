"""What a wheel has to hold, and what it must not: every file of the packages, their licences, and nothing else."""

import base64
import csv
import hashlib
import io
import re
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.utils import canonicalize_name
from tests.support.platform.unpacked_wheel import packaged_files

NEEDED = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
VENDOR = "towpath_console/assets/vendor"
"""Files that other packages bring; each has its licence beside it."""

SECRETS = {
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{16}"),
    "a seed of NATS": re.compile(rb"\bS[ACOUNX][A-Z2-7]{56}\b"),
    "a key of AWS": re.compile(rb"\bAKIA[0-9A-Z]{16}\b"),
    "a key of Google": re.compile(rb"\bAIza[0-9A-Za-z_-]{35}\b"),
    "a key of a model provider": re.compile(rb"\bsk-[A-Za-z0-9_-]{32,}\b"),
    "a token of GitHub": re.compile(rb"\bgh[pousr]_[A-Za-z0-9]{36}\b"),
}
"""What credentials look like, in forms that nothing else has."""


def wheel_faults(wheel: Path, source: Path) -> list[str]:
    """Return what is wrong with *wheel*, which was built from the checkout *source*."""
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))
    with zipfile.ZipFile(wheel) as packed:
        files = {name: packed.read(name) for name in packed.namelist() if not name.endswith("/")}
    about = f"{project['project']['name']}-{project['project']['version']}.dist-info"
    packages = [PurePosixPath(path).name for path in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
    return [
        *_wrong_files(files, packaged_files(source), packages, about),
        *_wrong_metadata(message_from_bytes(files.get(f"{about}/METADATA", b"")), project["project"]),
        *_wrong_record(files, f"{about}/RECORD"),
        *(
            f"{name} holds {what}"
            for name, text in files.items()
            for what, form in SECRETS.items()
            if form.search(text)
        ),
    ]


def _wrong_files(files: dict[str, bytes], expected: set[str], packages: list[str], about: str) -> Iterator[str]:
    needed = {f"{about}/{name}" for name in NEEDED}
    yield from (f"{name} is missing" for name in sorted((expected | needed) - set(files)))
    yield from (f"{name} does not belong there" for name in sorted(set(files) - expected - needed))
    yield from (f"{name} has no py.typed" for name in packages if f"{name}/py.typed" not in files)
    vendored = [name for name in sorted(files) if name.startswith(f"{VENDOR}/") and not name.endswith(".LICENSE.txt")]
    if not vendored:
        yield f"{VENDOR} has no script"
    yield from (f"{name} has no licence beside it" for name in vendored if f"{name}.LICENSE.txt" not in files)


def _wrong_metadata(stated: Message, project: dict[str, Any]) -> Iterator[str]:
    wanted = {
        "Name": [project["name"]],
        "Version": [project["version"]],
        "Requires-Python": [project["requires-python"]],
        "License-Expression": [project["license"]],
        "License-File": project["license-files"],
        "Provides-Extra": sorted(canonicalize_name(name) for name in project["optional-dependencies"]),
    }
    for field, values in wanted.items():
        found = [str(value) for value in stated.get_all(field, [])]
        if sorted(found) != values:
            yield f"the metadata have {field}: {', '.join(found) or 'nothing'}, not {', '.join(values)}"


def _wrong_record(files: dict[str, bytes], record: str) -> Iterator[str]:
    """Compare the digests that installers check with the files."""
    listed = {row[0]: row[1] for row in csv.reader(io.StringIO(files.get(record, b"").decode())) if row}
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if name != record and listed.get(name) != f"sha256={digest}":
            yield f"{name} is not in RECORD with its digest"
