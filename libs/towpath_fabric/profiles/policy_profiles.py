"""The policy profiles that come with the platform: policies that are picked by one word (docs/policies.md).

They are files beside this module, read as they are: what a person is shown is what is in force.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

PROFILES = ("open", "balanced", "strict")
"""By name, the one that restricts least first."""


def profile_file(name: str) -> Path:
    """Return the file of a profile."""
    return Path(__file__).parent / f"{name}.yaml"


def policy_source(path: Path) -> str:
    """Return where a policy read from *path* comes from, as its versions say it: the profile, or the file."""
    return next((f"profile {name}" for name in PROFILES if path == profile_file(name).absolute()), str(path))


def policy_file_name(path: Path) -> str:
    """Return what people call the policy read from *path*: the profile, the path from where they are, or the name."""
    source = policy_source(path)
    if source != str(path):
        return source
    below = path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if below else path.name


@functools.cache
def profile_texts() -> Mapping[str, str]:
    """Return the text of every profile by its name."""
    return {name: profile_file(name).read_text("utf-8") for name in PROFILES}
