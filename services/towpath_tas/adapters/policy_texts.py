"""Reads the text of a policy as people write it: with its profile written out, its conditions compiled as CEL."""

from dataclasses import dataclass

from towpath_fabric.profiles.policy_profiles import profile_texts
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.policy_file import ParsedPolicy, read_policy
from towpath_tas.core.policy.profile_expansion import expand_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """The text with its profile written out, which is what is stored, and what was read in it."""

    text: str
    read: ParsedPolicy


def read_policy_text(written: str) -> PolicyText:
    """Read *written*; its problems are told with its own lines."""
    expanded = expand_profile(written, profile_texts())
    if expanded.problems:
        return PolicyText(text=written, read=ParsedPolicy(problems=expanded.problems))
    return PolicyText(text=expanded.text, read=read_policy(expanded.text, compile_condition))
