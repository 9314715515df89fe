"""Checks the command line of `towpath chaos` as a whole and turns it into the settings of a campaign.

All problems of a command line are reported at once, before anything is started.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from towpath_contracts.problems.input_faults import option_fault, tell_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_embedded.chaos.campaign import CampaignSettings
from towpath_embedded.chaos.faults import FAULTS, KILLS, Fault, named_faults
from towpath_embedded.chaos.goal_workloads import goal_workload, objective_workload
from towpath_embedded.chaos.workload import Workload, WorkloadError, default_workloads, read_workload

DEFAULT_SEED = 1
QUICK_KILLS = 160
FULL_KILLS = 1_000
QUICK_RARE = 1
FULL_RARE = 10
"""How often each of the faults that are no kill strikes, beside the kills."""

SHORT_STOP_S = 6.0
"""Longer than the lease of a fact or of a call (5 s)."""

LONG_STOP_S = 25.0
"""Longer than the lease of a decision, too (20 s)."""

LIMIT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions:
    """The command line as it was given; see `towpath chaos --help`."""

    network: Path | None = None
    decisions: Path | None = None
    tools: Path | None = None
    policy: Path | None = None
    faults: tuple[str, ...] = ()
    kills: int | None = None
    runs: int = 0
    seed: int = DEFAULT_SEED
    quick: bool = False
    long: bool = False
    data: Path | None = None


def campaign_settings(options: ChaosOptions) -> CampaignSettings:
    """Return what *options* ask for; raises ProblemError with every problem."""
    wrong: list[ProblemDetail] = [*_files(options), *_numbers(options)]
    faults, strange = named_faults(options.faults or ("all",))
    wrong += [_invalid("--faults", f"{word} names no fault; there are {', '.join(FAULTS)}") for word in strange]
    workloads = _workloads(options, wrong)
    if wrong:
        raise ProblemError(problem("request_invalid", tell_faults(wrong), errors=tuple(wrong)))
    return _settings(options, workloads, faults)


def _settings(options: ChaosOptions, workloads: tuple[Workload, ...], faults: Iterable[Fault]) -> CampaignSettings:
    names = [fault.name for fault in faults]
    often = tuple(name for name in names if name in KILLS) or tuple(names)
    seldom = [name for name in names if name not in often]
    each = QUICK_RARE if options.quick or options.kills else FULL_RARE
    return CampaignSettings(
        workloads=workloads,
        faults=often,
        rare=tuple(seldom) * each,
        strikes=options.kills or (QUICK_KILLS if options.quick else FULL_KILLS),
        seed=options.seed,
        bystanders=options.runs,
        stop_s=LONG_STOP_S if options.long else SHORT_STOP_S,
    )


def _files(options: ChaosOptions) -> list[ProblemDetail]:
    found: list[ProblemDetail] = []
    if options.network is not None and options.decisions is None:
        found.append(_invalid("--decisions", "a network of your own needs --decisions FILE: what the model would say"))
    if options.network is None:
        given = [name for name in ("decisions", "tools", "policy") if getattr(options, name) is not None]
        found += [_invalid(f"--{name}", f"--{name} belongs to --network FILE") for name in given]
    for name in ("network", "decisions", "tools", "policy"):
        path: Path | None = getattr(options, name)
        if path is not None and not path.is_file():
            found.append(_invalid(f"--{name}", f"{path} is no file"))
    if options.data is not None and (options.data / "platform").exists():
        found.append(_invalid("--data", f"{options.data} holds an earlier platform; name a new folder"))
    return found


def _numbers(options: ChaosOptions) -> list[ProblemDetail]:
    found: list[ProblemDetail] = []
    if options.kills is not None and not 1 <= options.kills <= LIMIT:
        found.append(_invalid("--kills", f"--kills takes 1 to {LIMIT}, not {options.kills}"))
    if not 0 <= options.runs <= LIMIT:
        found.append(_invalid("--runs", f"--runs takes 0 to {LIMIT}, not {options.runs}"))
    if options.quick and options.long:
        found.append(_invalid("--long", "--quick and --long contradict each other"))
    return found


def _workloads(options: ChaosOptions, wrong: list[ProblemDetail]) -> tuple[Workload, ...]:
    if options.network is None or options.decisions is None:
        return (*default_workloads(), goal_workload(), objective_workload())
    if any(entry.pointer in {"/network", "/decisions", "/tools", "/policy"} for entry in wrong):
        return ()
    try:
        return (read_workload(options.network, options.decisions, tools=options.tools, policy=options.policy),)
    except WorkloadError as error:
        wrong += error.details
        return ()


def _invalid(option: str, detail: str) -> ProblemDetail:
    return option_fault(option, detail, "invalid")
