"""Prepares a version in a copy of the commit, and only if all of it holds changes the checkout.

Nothing is committed, tagged or sent anywhere: those are a person's steps, and the last thing that this says.
"""

import hashlib
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import date
from importlib import metadata
from pathlib import Path

from packaging.version import InvalidVersion, Version
from tests.release.changelog import release_changelog, released_versions
from tests.release.dependency_licences import dependencies, licence_faults, licence_list, read_rules
from tests.release.distributions import (
    Distributions,
    build_distributions,
    differing_wheel,
    run,
    wrong_installation,
    wrong_page,
)
from tests.release.wheel_contents import wheel_faults
from tests.supply_chain.bill_of_materials import bill_of_materials
from tests.supply_chain.pins import read_pins

PROJECT, CHANGELOG, CHART = "pyproject.toml", "CHANGELOG.md", "deploy/chart/Chart.yaml"
TYPESCRIPT = "clients/typescript/package.json"
STATING = (PROJECT, CHANGELOG, CHART, TYPESCRIPT)
"""Files that state the version."""

_VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
_PACKAGE_VERSION = re.compile(r'^  "version": "([^"]+)"', re.MULTILINE)


class ReleaseError(ValueError):
    """The checkout can't be released as it is; the message says why and what to do."""


def unchanged_commit(root: Path) -> str:
    """Return the commit of *root*; raises ReleaseError where a file differs from it, or is not in it."""
    if changed := run("git", "status", "--porcelain", cwd=root).strip():
        msg = f"the checkout differs from its commit; commit or remove these first:\n{changed}"
        raise ReleaseError(msg)
    return run("git", "rev-parse", "HEAD", cwd=root).strip()


def exact_version(text: str) -> Version:
    """Return the version that *text* is, in the one spelling that file names and tags have."""
    try:
        version = Version(text)
    except InvalidVersion as error:
        msg = f"{text!r} is no version; write one like 0.1.0 or 0.2.0rc1"
        raise ReleaseError(msg) from error
    if str(version) != text:
        msg = f"write {text!r} as {version}, as files and tags will have it"
        raise ReleaseError(msg)
    return version


def stated_version(source: Path) -> str:
    """Return the version of the checkout *source*."""
    return str(tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def semantic_version(version: Version) -> str:
    """Return *version* as Helm and npm read one: of a version before 1.0.0 that is 1.0.0-rc1."""
    return re.sub(r"(?<=\d)(?=a|b|rc)", "-", str(version), count=1)


def write_version(source: Path, version: Version, day: date) -> None:
    """Have *source* be *version*: its number, those of chart and TypeScript client, and its section."""
    project, changelog, chart = source / PROJECT, source / CHANGELOG, source / CHART
    text, told = project.read_text("utf-8"), changelog.read_text("utf-8")
    if Version(stated_version(source)) > version:
        msg = f"pyproject.toml has {stated_version(source)} already; release that version, or one above it"
        raise ReleaseError(msg)
    told = release_changelog(told, version, day)
    project.write_text(_VERSION.sub(f'version = "{version}"', text, count=1), "utf-8")
    changelog.write_text(told, "utf-8")
    stated = chart.read_text("utf-8")
    for key, value in {"version": semantic_version(version), "appVersion": str(version)}.items():
        stated = re.sub(rf"^{key}: .*$", f"{key}: {value}", stated, flags=re.MULTILINE)
    chart.write_text(stated, "utf-8")
    package = source / TYPESCRIPT
    stated = package.read_text("utf-8")
    package.write_text(_PACKAGE_VERSION.sub(f'  "version": "{semantic_version(version)}"', stated, count=1), "utf-8")


def version_faults(source: Path, built: Distributions, tags: list[str]) -> Iterator[str]:
    """Return where another version is stated than that of *source*: by files, the changelog, and tags of its commit."""
    version = stated_version(source)
    wanted = {built.wheel: f"towpath-{version}-py3-none-any.whl", built.sdist: f"towpath-{version}.tar.gz"}
    yield from (f"{path.name} should be named {name}" for path, name in wanted.items() if path.name != name)
    client = _PACKAGE_VERSION.findall((source / TYPESCRIPT).read_text("utf-8"))
    if client != [semantic_version(Version(version))]:
        yield f"{TYPESCRIPT} is version {', '.join(client) or 'nothing'}, and the commit {version}"
    yield from (f"the commit is tagged {tag} and is {version}" for tag in tags if tag != f"v{version}")
    newest = released_versions((source / "CHANGELOG.md").read_text("utf-8"))[:1]
    if tags and [str(found) for found in newest] != [version]:
        yield f"CHANGELOG.md has no section of {version} above the others, and the commit is tagged as released"


class Workplace:
    """A copy of a commit in a temporary folder, and what is built of it there."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        self.source = folder / "source"
        run("git", "clone", "--quiet", "--no-hardlinks", root, self.source)
        run("git", "checkout", "--quiet", unchanged_commit(root), cwd=self.source)

    def build(self) -> Distributions:
        """Build the copy as it is now."""
        return build_distributions(self.source, self._folder / "built")

    def faults(self, built: Distributions, tags: list[str], *, extras: bool) -> list[str]:
        """Return all that is wrong with what was built."""
        project = tomllib.loads((self.source / "pyproject.toml").read_text("utf-8"))["project"]
        alone = [*project["optional-dependencies"]] if extras else []
        return [
            *version_faults(self.source, built, tags),
            *wheel_faults(built.wheel, self.source),
            *differing_wheel(built, self.source, self._folder / "again"),
            *wrong_page(built),
            *dependency_faults(),
            *wrong_installation(built.wheel, project["version"], self._folder / "installed", alone),
        ]

    def keep(self, built: Distributions, folder: Path) -> None:
        """Put what was built, and its bill of materials, into *folder*."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in built:
            shutil.copyfile(path, folder / path.name)
        pins = read_pins(self.source / "deploy" / "requirements.txt")
        bill = bill_of_materials(pins, self.source / "pyproject.toml")
        (folder / f"towpath-{stated_version(self.source)}.cdx.json").write_text(bill, "utf-8")


def dependency_faults() -> list[str]:
    """Return what is wrong with the licences of all that the extras install."""
    rules = read_rules()
    found, absent = dependencies(metadata.distribution("towpath").requires or ())
    missing = [f"{name} is not installed, so its licence can't be read; uv sync --group dev" for name in sorted(absent)]
    return [*missing, *licence_faults(licence_list(found, rules), rules)]


def check(root: Path, out: Path | None, *, extras: bool) -> int:
    """Build the commit of *root* as it is, and check it; with *out*, leave there what is published."""
    with tempfile.TemporaryDirectory(prefix="towpath-release-") as folder:
        place = Workplace(root, Path(folder))
        tags = [tag for tag in run("git", "tag", "--points-at", "HEAD", cwd=root).split() if tag.startswith("v")]
        built = place.build()
        if not _told(place.faults(built, tags, extras=extras), built):
            return 1
        if out is not None:
            place.keep(built, out)
            sys.stdout.write(f"left in {out}\n")
    return 0


def prepare(root: Path, version: Version, day: date, out: Path, *, extras: bool, dry_run: bool) -> int:
    """Make *version* of the commit of *root*; the checkout changes only where nothing was found wrong."""
    unchanged_commit(root)
    if run("git", "tag", "--list", f"v{version}", cwd=root).strip():
        msg = f"the tag v{version} is there already; release another version"
        raise ReleaseError(msg)
    with tempfile.TemporaryDirectory(prefix="towpath-release-") as folder:
        place = Workplace(root, Path(folder))
        write_version(place.source, version, day)
        built = place.build()
        return conclude(root, place, built, place.faults(built, [], extras=extras), None if dry_run else out)


def conclude(root: Path, place: Workplace, built: Distributions, faults: list[str], out: Path | None) -> int:
    """Put what was built into *out* and have *root* be that version, unless there are faults, or it is a trial."""
    if not _told(faults, built):
        return 1
    if out is None:
        sys.stdout.write("nothing was changed (--dry-run)\n")
        return 0
    place.keep(built, out)
    for name in STATING:
        shutil.copyfile(place.source / name, root / name)
    version = stated_version(root)
    sys.stdout.write(
        f"left in {out}; {', '.join(STATING)} are those of {version}. What remains is yours:\n"
        f"  git commit --all --message 'Release {version}' && git tag v{version}\n"
        f"  uv run --group dev twine upload {' '.join(str(out / path.name) for path in built)}\n"
        f"  npm publish {Path(TYPESCRIPT).parent}\n"
    )
    return 0


def _told(faults: list[str], built: Distributions) -> bool:
    """Print what was built, or all that is wrong with it; return whether nothing is."""
    if faults:
        sys.stderr.writelines(f"{fault}\n" for fault in faults)
        sys.stderr.write(f"{len(faults)} faults; nothing was changed\n")
        return False
    for path in built:
        sys.stdout.write(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    return True
