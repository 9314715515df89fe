"""What `towpath up` is started with: options completed by the project or the sample, and what processes get of them."""

from dataclasses import replace
from pathlib import Path

from towpath_embedded.network_files.script_watch import SCRIPT_FOLDER, script_folder
from towpath_embedded.processes.role_process import AgentLaunch, UserCode, WorkerLaunch
from towpath_embedded.start_checks import UpOptions
from towpath_fabric.profiles.policy_profiles import profile_file

PROJECT_FILE = Path("towpath.yaml")
"""What a folder is started with where the command line does not say (`towpath init` writes it)."""


def policy_environment(options: UpOptions) -> dict[str, str]:
    """Name the policy file: a profile is one, too."""
    policy = policy_file(options)
    return {} if policy is None else {"TOWPATH_POLICY_FILE": str(policy.absolute())}


def policy_file(options: UpOptions) -> Path | None:
    """Return the policy that is applied: the file of a profile, or that of a person."""
    return profile_file(options.profile) if options.profile else options.policy


def role_environment(options: UpOptions) -> dict[str, dict[str, str]]:
    """Name where scripts lie: beside the networks, unless another folder has them."""
    single = {"tas": {"TOWPATH_SINGLE_PERSON": "true"}} if options.single_person else {}
    if options.networks is None:
        return single
    return {**single, "decider": {SCRIPT_FOLDER: str(script_folder(options.networks).absolute())}}


def with_project(options: UpOptions) -> UpOptions:
    """Return *options* with what `towpath.yaml` here names, where nothing else is given."""
    if options.sample or options.servers_only or not PROJECT_FILE.exists():
        return options
    from towpath.project.project_file import read_project  # reads YAML: not on the way of others to readiness

    found = read_project(PROJECT_FILE)
    return replace(
        options,
        workers=options.workers or found.tool_modules(),
        policy=options.policy or (None if options.profile else found.policy),
        networks=options.networks or found.networks,
        mcp=options.mcp or found.mcp,
        single_person=options.single_person or found.single_person,
        project=str(PROJECT_FILE.absolute()),
    )


def with_sample(options: UpOptions, data: Path) -> UpOptions:
    """Return *options* with the files of the sample, where it is asked for."""
    if not options.sample:
        return options
    from towpath_embedded.sample import sample_in

    files = sample_in(data)
    return replace(options, workers=(files.tools, *options.workers), policy=files.policy, networks=files.folder)


def sample_environment(options: UpOptions) -> dict[str, str]:
    """Return what tells processes where the sample lies."""
    if not options.sample or options.networks is None:
        return {}
    from towpath_embedded.sample import SampleFiles

    return SampleFiles(options.networks).environment()


def workers(options: UpOptions) -> list[UserCode]:
    """MCP servers have a worker of their own: what strangers send is read apart from what was written here."""
    own: list[UserCode] = [own_worker(options)]
    mcp = [] if options.mcp is None else [mcp_worker(options)]
    return [*own, *mcp, *(AgentLaunch(target=target) for target in options.agents)]


def own_worker(options: UpOptions) -> WorkerLaunch:
    """Return the worker of a person's own tools, beside the built-in ones."""
    return WorkerLaunch(modules=options.workers, builtin=True, sandbox=options.sandbox)


def mcp_worker(options: UpOptions) -> WorkerLaunch:
    """Return the worker of MCP servers; without a file of them where none is named."""
    return WorkerLaunch(mcp=options.mcp.absolute() if options.mcp else None, sandbox=options.sandbox)
