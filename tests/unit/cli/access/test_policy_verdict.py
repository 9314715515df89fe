"""`towpath policy check` tells a person the explanation of a denial, and not what a model would be told to do."""

import pytest

from towpath.cli.access.policy_commands import write_verdict
from towpath.cli.shared.output import OutputPrinter
from towpath_contracts.tools.access import AccessVerdict
from towpath_contracts.tools.calls import Denial
from towpath_contracts.tools.violations import DenialExplanation


@pytest.mark.parametrize("explained", [True, False])
def test_the_suggestion_for_a_model_stands_only_where_nothing_is_explained(
    explained: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    told = DenialExplanation(detail="desk may not call refund", remedy="Correct rule large") if explained else None
    denial = Denial(violation_type="permission_denied", reason="no rule", explanation=told)
    verdict = AccessVerdict(
        verdict="deny", reason="no rule", policy_version=1, suggestion="Try find, which is open.", denial=denial
    )
    write_verdict(verdict, OutputPrinter("table"))
    lines = capsys.readouterr().out.splitlines()
    wanted = ["deny  desk may not call refund", "Correct rule large"]
    assert lines == (wanted if explained else ["deny  no rule", "Try find, which is open."])
