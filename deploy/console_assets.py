"""Puts the scripts of the console, which other packages bring, beside its own files while the wheel is built.

Each has the licence of its package beside it, which asks that whoever passes the script on passes it on too.
They are no part of the repository. The build needs `django-htmx` for its files only: nothing of it is imported.
"""

import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VENDOR = "libs/towpath_console/assets/vendor"
SCRIPTS = {"htmx.js": ("django-htmx", "django_htmx/static/django_htmx/htmax-4.min.js")}
"""Each script of the console: the package that has it, and its path there. This one is htmx with its extensions."""


class ConsoleAssets(BuildHookInterface[Any]):
    """Copies `SCRIPTS` into `VENDOR` under the root of the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Copy; raises PackageNotFoundError where the package is not there."""
        del version
        folder = Path(self.root) / VENDOR
        folder.mkdir(parents=True, exist_ok=True)
        for name, (package, path) in SCRIPTS.items():
            brought = distribution(package)
            shutil.copyfile(str(brought.locate_file(path)), folder / name)
            texts = [brought.read_text(f"licenses/{file}") for file in brought.metadata.get_all("License-File") or ()]
            (folder / f"{name}.LICENSE.txt").write_text("\n".join(text for text in texts if text), "utf-8")
        build_data["artifacts"] = [*build_data.get("artifacts", ()), f"{VENDOR}/*"]
