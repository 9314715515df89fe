"""The mutation tool changes what was meant, wherever it stands and however it is formatted, or nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.chaos.mutant_trials import Trial
from tests.chaos.mutants import MUTANTS as CHAOS_MUTANTS
from tests.mutation.in_process import applied, apply
from tests.mutation.mutations import Mutation, mutated_file, printed
from tests.mutation.symbols import MutationError
from tests.mutation.trials import TestRun, tried
from tests.simulation.mutants import BUDGET_MUTANTS, CHILD_MUTANTS, MUTANTS

from towpath_contracts.budgets import Amounts
from towpath_contracts.subjects import task_submit

ORDERS = '''
LIMIT = 10
"""Orders of a day."""


class Orders:
    def add(self, order: str) -> bool:
        """Take an order unless `limit` is reached."""
        if len(self.taken) >= LIMIT:  # a comment
            return False
        self.taken.append(
            order,
        )
        self.log(event="added", text=f"order {order} of {LIMIT}")
        return True
'''
SQL = """
-- name: orders
SELECT * FROM orders WHERE day = $1

-- name: notes
SELECT * FROM notes WHERE day = $1
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "libs/shop/__init__.py": "",
        "libs/shop/orders.py": ORDERS,
        "libs/shop/bills.py": "def total(items):\n    return sum(items)\n",
        "libs/shop/queries.sql": SQL,
        "services/till/__init__.py": "",
        "services/till/core/drawer.py": "def opened():\n    return True\n",
        "deploy/compose.yaml": "command: [serve, shop]\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def differences(root: Path, mutation: Mutation) -> list[tuple[str, str]]:
    """Return the lines that differ, before and after."""
    made = mutated_file(mutation, root)
    lines = zip(printed(made.path).splitlines(), made.source.splitlines(), strict=True)
    return [(before.strip(), after.strip()) for before, after in lines if before != after]


@pytest.mark.parametrize(
    ("symbol", "old", "new", "after"),
    [
        ("shop:Orders.add", "len( self.taken )>=LIMIT", "len(self.taken) > LIMIT", "if len(self.taken) > LIMIT:"),
        ("shop:Orders", "return False", "return None", "return None"),
        ("shop:Orders.add", "self.taken.append(order)", "pass", "pass"),
        (
            "shop:Orders.add",
            "event='added'",
            "event='lost'",
            "self.log(event='lost', text=f'order {order} of {LIMIT}')",
        ),
        ("shop:LIMIT", "10", "11", "LIMIT = 11"),
        ("shop:total", "sum(items)", "max(items)", "return max(items)"),
        ("shop:orders", "day = $1", "day < $1", "SELECT * FROM orders WHERE day < $1"),
        ("compose.yaml", "shop", "till", "command: [serve, till]"),
    ],
)
def test_code_that_occurs_once_in_a_symbol_is_changed_and_nothing_else(
    root: Path, symbol: str, old: str, new: str, after: str
) -> None:
    assert [line for _, line in differences(root, Mutation(symbol=symbol, old=old, new=new))] == [after]


def test_a_part_of_a_string_is_changed_in_constants_and_not_in_docstrings(root: Path) -> None:
    changed = differences(root, Mutation(symbol="shop:Orders.add", old=" of ", new=" in ", text=True))
    assert [after for _, after in changed] == ["self.log(event='added', text=f'order {order} in {LIMIT}')"]
    with pytest.raises(MutationError, match="nowhere"):
        mutated_file(Mutation(symbol="shop:Orders.add", old="unless", new="if", text=True), root)


def test_statements_are_removed_and_a_body_never_stays_empty(root: Path) -> None:
    source = mutated_file(Mutation(symbol="shop:total", old="return sum(items)", new=""), root).source
    assert source == "def total(items):\n    pass\n"
    source = mutated_file(Mutation(symbol="shop:Orders.add", old="self.taken.append(order)", new=""), root).source
    assert "append" not in source


def test_a_symbol_is_found_in_the_module_to_which_it_has_moved(root: Path) -> None:
    mutation = Mutation(symbol="shop:Orders.add", old="return False", new="return True")
    before = mutated_file(mutation, root)
    (root / "libs/shop/sales").mkdir()
    (root / "libs/shop/orders.py").rename(root / "libs/shop/sales/book.py")
    after = mutated_file(mutation, root)
    assert after.path == root / "libs/shop/sales/book.py"
    assert after.source == before.source


def test_code_that_occurs_in_two_definitions_of_one_name_is_refused_and_both_are_named(root: Path) -> None:
    (root / "libs/shop/offers.py").write_text("def total(items):\n    return sum(items)\n", "utf-8")
    with pytest.raises(MutationError, match=r"2 times \(libs/shop/bills.py, libs/shop/offers.py\), not once"):
        mutated_file(Mutation(symbol="shop:total", old="sum(items)", new="0"), root)


def test_a_name_that_two_modules_define_is_distinguished_by_its_code(root: Path) -> None:
    (root / "libs/shop/offers.py").write_text("def total(items):\n    return len(items)\n", "utf-8")
    assert mutated_file(Mutation(symbol="shop:total", old="len(items)", new="0"), root).path.name == "offers.py"


@pytest.mark.parametrize(
    ("symbol", "old", "new", "message"),
    [
        ("shop:Orders.add", "LIMIT", "0", r"shop:Orders.add has 'LIMIT' 2 times \(libs/shop/orders.py\), not once"),
        ("shop:Orders.add", "self.other", "0", "shop:Orders.add has 'self.other' nowhere, not once"),
        ("shop:total", "sum(items)", "sum(items)", "changes nothing"),
        ("shop:total", "sum(items)", "sum( items )", "changes nothing"),
        ("shop:total", "return sum(", "return", "is no Python"),
        ("shop:Order.add", "LIMIT", "0", r"shop has no Order.add; it has Orders.add"),
        ("shop:opened", "True", "False", "shop has no opened; it is in till"),
        ("attic:opened", "True", "False", "attic is no package of the product"),
        ("nowhere.yaml", "shop", "till", "the name of 0 files"),
        ("orders.py", "LIMIT", "0", "the name of 1 files that are no Python"),
    ],
)
def test_what_is_not_there_exactly_once_is_refused(root: Path, symbol: str, old: str, new: str, message: str) -> None:
    with pytest.raises(MutationError, match=message):
        mutated_file(Mutation(symbol=symbol, old=old, new=new), root)


def test_python_does_not_take_the_compiled_form_of_the_code_as_it_was(root: Path) -> None:
    """It did once: the mutant was as long, and the tests before it took less than a second."""
    orders = root / "libs/shop/orders.py"
    untouched = orders.stat().st_mtime_ns
    seconds: list[int] = [untouched // 10**9]

    def run(_root: Path, _tests: Sequence[str]) -> TestRun:
        seconds.append(int(orders.stat().st_mtime))
        return TestRun(code=0)

    assert tried(Mutation(symbol="shop:LIMIT", old="10", new="11"), [], root, run=run).verdict == "survived"
    assert len(set(seconds)) == 3
    assert orders.stat().st_mtime_ns == untouched


def test_a_function_of_this_process_is_mutated_until_the_block_ends_for_whoever_has_imported_it() -> None:
    with applied(Mutation(symbol="towpath_contracts:task_submit", old="task.submit.", new="task.lost.", text=True)):
        assert task_submit("ann") == "task.lost.ann"
    assert task_submit("ann") == "task.submit.ann"


def test_a_property_is_mutated_as_its_function_is() -> None:
    with applied(Mutation(symbol="towpath_contracts:Amounts.nothing", old="UNITS", new="()")):
        assert Amounts(tokens=1).nothing
    assert not Amounts(tokens=1).nothing


def test_what_is_no_function_is_not_mutated_in_a_process_that_runs() -> None:
    with pytest.raises(MutationError, match="is no function"):
        apply(Mutation(symbol="towpath_engine:LOOP_THRESHOLD", old="3", new="4"))
    with pytest.raises(MutationError, match="is no Python"):
        apply(Mutation(symbol="towpath_orchestrator:outcomes", old="SELECT run_id", new="SELECT 1"))


def test_two_mutations_of_one_function_are_refused_since_each_is_made_of_the_source_as_it_is() -> None:
    twice = [Mutation(symbol="towpath_contracts:Amounts.nothing", old="UNITS", new=new) for new in ("()", "[]")]
    with pytest.raises(MutationError, match="of one function"):
        apply(*twice)
    assert not Amounts(tokens=1).nothing


CHAOS_MUTATIONS = {f"chaos {name}": mutant.mutations for name, mutant in CHAOS_MUTANTS.items()}
PROCESS_MUTATIONS = {**MUTANTS, **BUDGET_MUTANTS, **CHILD_MUTANTS, **CHAOS_MUTATIONS}


@pytest.mark.parametrize("name", [name for name, mutations in PROCESS_MUTATIONS.items() if mutations])
def test_every_mutant_of_the_simulation_and_of_chaos_can_be_made_of_the_code_as_it_is(name: str) -> None:
    with applied(*PROCESS_MUTATIONS[name]):
        pass


@pytest.mark.parametrize(
    ("mutated", "late", "held"), [(True, True, True), (True, False, False), (False, True, False), (False, False, True)]
)
def test_a_mutant_that_nobody_notices_is_no_good_news(mutated: bool, late: bool, held: bool) -> None:
    findings = {"late": ("permitted after the fence",) if late else (), "dup": ()}
    assert Trial(name="no_fence_check", mutated=mutated, findings=findings).as_it_should is held
