"""`towpath policy profiles`: the policies that are picked by one word, as they come with this release.

They are read here, without a platform: what is in force, with the profile written out, is `towpath policy show --text`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.profiles.policy_profiles import profile_texts

if TYPE_CHECKING:
    from towpath.networks.spec_files import PolicyFile

app = App(
    name="profiles",
    help="The policies that are picked by one word: open, balanced, strict.",
    help_epilogue=examples("towpath policy profiles list", "towpath policy profiles show balanced"),
)

_PROFILES = (Column("profile", "profile"), Column("what it holds", "about", is_whole=True))


def written_policy(file: Path | None, profile: str | None) -> "PolicyFile":
    """Return the policy in *file*, or one that is nothing but *profile*; raises ProblemError for both or neither."""
    from towpath.networks.spec_files import PolicyFile, load_policy

    if file is not None and profile is None:
        return load_policy(file)
    if profile is not None and file is None:
        _text_of(profile)
        return PolicyFile(text=f"profile: {profile}\n", source=f"profile {profile}")
    detail = "apply takes a file or --profile; a file names its profile itself, with `profile: balanced`"
    raise ProblemError(problem("request_invalid", detail))


@app.command(
    name="list", help_epilogue=examples("towpath policy profiles list", "towpath policy profiles list -o json")
)
async def list_profiles(*, common: OutputOptions = OUTPUT_OPTIONS) -> None:
    """List the profiles, the one that restricts least first."""
    rows = [{"profile": name, "about": _about(text)} for name, text in profile_texts().items()]
    hint = "This release has no profiles. Write rules in their place: towpath policy apply FILE."
    common.out().rows("profiles", rows, _PROFILES, empty=hint)


@app.command(
    help_epilogue=examples("towpath policy profiles show balanced", "towpath policy profiles show strict > policy.yaml")
)
async def show(profile: str, /) -> None:
    """Print a profile as the YAML that a policy with `profile: NAME` is read with.

    Args:
        profile: Its name.
    """
    print(_text_of(profile), end="")


def _about(text: str) -> str:
    return text.partition("\n")[0].partition(": ")[2]


def _text_of(name: str) -> str:
    texts = profile_texts()
    if name not in texts:
        # None is proposed: a wrong guess, such as open for nope, would be the one that restricts nothing.
        remedy = f"There are {', '.join(texts)}: towpath policy profiles list."
        raise ProblemError(problem("not_found", f"no profile is called {name}", remedy=remedy))
    return texts[name]
