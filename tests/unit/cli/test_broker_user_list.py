"""Workers' credentials of a deployed broker: made, changed and removed with their rights and their password."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.places import ROOT

from towpath.cli import main
from towpath.cli.broker.broker_user_list import OTHER_SECRETS, authority_configuration, load
from towpath_contracts.authority import ANY, client_rights, worker_rights
from towpath_contracts.problems.registry import ProblemError

DEPLOY = ROOT / "deploy"
NATS = Path(sys.executable).parent / "nats-server"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `deploy/make-secrets` leaves it."""
    folder = tmp_path_factory.mktemp("deploy")
    for name in ("credentials.yaml", "authority.conf", "make-secrets"):
        (folder / name).write_bytes((DEPLOY / name).read_bytes())
    subprocess.run(["bash", folder / "make-secrets"], check=True, capture_output=True)
    return folder


@pytest.fixture
def deploy(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(made, tmp_path / "deploy")


def said(deploy: Path, *words: str) -> int:
    return main(["workers", "credential", *words, "--deploy", str(deploy), "-o", "json"])


def passwords(deploy: Path) -> dict[str, str]:
    lines = (deploy / "secrets" / "nats.env").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_credential_is_added_with_rights_and_a_password_that_nobody_sees(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(deploy, "add", "billing", "--project", "shop", "--toolset", "billing", "--toolset", "invoices") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["credentials"]}
    assert rows["billing"] == {"name": "billing", "project": "shop", "toolsets": ["billing", "invoices"]}
    written = (deploy / "authority.conf").read_text("utf-8")
    assert written == authority_configuration(load(deploy / "credentials.yaml").users())
    assert "exec_shop=invoices" in written
    password = passwords(deploy)["NATS_PASSWORD_BILLING"]
    assert (deploy / "secrets" / "billing.env").read_text("utf-8") == f"TOWPATH_NATS_PASSWORD={password}\n"
    assert (deploy / "secrets" / "billing.env").stat().st_mode & 0o077 == 0
    assert password not in written


def test_a_credential_before_its_secrets_is_kept_and_what_is_missing_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("credentials.yaml", "authority.conf", "make-secrets"):
        (tmp_path / name).write_bytes((DEPLOY / name).read_bytes())
    assert said(tmp_path, "add", "billing", "--toolset", "billing") == 0
    assert f"make it: {tmp_path / 'make-secrets'}" in capsys.readouterr().err
    subprocess.run(["bash", tmp_path / "make-secrets"], check=True, capture_output=True)
    assert passwords(tmp_path)["NATS_PASSWORD_BILLING"]
    (tmp_path / "secrets" / "nats.env").unlink()
    before = (tmp_path / "credentials.yaml").read_text("utf-8")
    assert said(tmp_path, "add", "mail", "--toolset", "mail") == 2
    assert (tmp_path / "credentials.yaml").read_text("utf-8") == before


def test_the_broker_reads_what_was_added(deploy: Path) -> None:
    said(deploy, "add", "billing-eu", "--project", "shop", "--toolset", "billing")
    (deploy / "nats.conf").write_bytes((DEPLOY / "nats.conf").read_bytes())
    command = [NATS, "-t", "-c", deploy / "nats.conf"]
    done = subprocess.run(command, env=passwords(deploy), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.prints("workers credential add", "workers credential list", "workers credential remove")
def test_a_changed_credential_keeps_its_password_and_a_removed_one_leaves_nothing(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(deploy, "add", "billing", "--project", "shop", "--toolset", "billing")
    password = passwords(deploy)["NATS_PASSWORD_BILLING"]
    said(deploy, "add", "billing", "--project", "shop", "--toolset", "mail")
    assert passwords(deploy)["NATS_PASSWORD_BILLING"] == password
    assert "exec_shop=billing" not in (deploy / "authority.conf").read_text("utf-8")
    capsys.readouterr()
    assert said(deploy, "list") == 0
    listed = json.loads(capsys.readouterr().out)["credentials"]
    assert {"name": "billing", "project": "shop", "toolsets": ["mail"]} in listed
    assert said(deploy, "remove", "billing") == 0
    assert "NATS_PASSWORD_BILLING" not in passwords(deploy)
    assert not (deploy / "secrets" / "billing.env").exists()
    assert "billing" not in (deploy / "authority.conf").read_text("utf-8")
    assert said(deploy, "remove", "billing") != 0


def test_files_that_were_edited_by_hand_lose_no_password(deploy: Path) -> None:
    secrets = deploy / "secrets"
    broker = secrets / "nats.env"
    before = passwords(deploy)
    broker.write_text(broker.read_text("utf-8").rstrip("\n") + "\nNATS_PASSWORD_DESK=p1", "utf-8")
    assert said(deploy, "add", "billing", "--project", "shop", "--toolset", "billing") == 0
    assert said(deploy, "add", "desk", "--project", "shop", "--toolset", "desk") == 0
    found = passwords(deploy)
    added = {"NATS_PASSWORD_BILLING": found["NATS_PASSWORD_BILLING"], "NATS_PASSWORD_DESK": "p1"}
    assert found == before | added
    assert (secrets / "desk.env").read_text("utf-8") == "TOWPATH_NATS_PASSWORD=p1\n"


def test_a_removed_credential_takes_no_password_of_a_longer_name_with_it(deploy: Path) -> None:
    for name in ("bill", "billing", "bill-eu"):
        said(deploy, "add", name, "--toolset", "billing")
    before = passwords(deploy)
    assert said(deploy, "remove", "bill") == 0
    assert passwords(deploy) == {name: one for name, one in before.items() if name != "NATS_PASSWORD_BILL"}
    assert not (deploy / "secrets" / "bill.env").exists()
    assert (deploy / "secrets" / "billing.env").exists()


@pytest.mark.parametrize("name", ["gateway", "WORKER"])
def test_a_name_that_somebody_else_has_is_refused(deploy: Path, name: str) -> None:
    before = (deploy / "authority.conf").read_text("utf-8")
    assert said(deploy, "add", name, "--toolset", "billing") != 0
    assert (deploy / "authority.conf").read_text("utf-8") == before


def test_names_that_are_no_part_of_a_subject_are_refused_with_their_place(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (deploy / "credentials.yaml").read_text("utf-8")
    assert said(deploy, "add", "billing", "--project", "shop.>", "--toolset", "*") == 2
    errors = capsys.readouterr().err
    assert "/workers/billing/project" in errors and "/workers/billing/toolsets/0" in errors
    assert (deploy / "credentials.yaml").read_text("utf-8") == before


def test_a_list_that_says_the_impossible_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "credentials.yaml").write_text("workers: {a: {project: 'b c', toolsets: []}}")
    with pytest.raises(ProblemError, match="workers"):
        load(tmp_path / "credentials.yaml")


def test_only_an_operator_among_the_clients_may_pause_and_resume(tmp_path: Path) -> None:
    (tmp_path / "credentials.yaml").write_text("clients: [shop, desk]\noperators: [desk]")
    users = load(tmp_path / "credentials.yaml").users()
    shop, desk = ({one.split(".")[1] for one in users[name].publish} for name in ("shop", "desk"))
    assert desk - shop == {"pause", "resume"}
    assert {"note", "gate", "confidence", "cancel"} <= shop
    (tmp_path / "credentials.yaml").write_text("clients: [shop]\noperators: [desk]")
    with pytest.raises(ProblemError, match="none of its clients: desk"):
        load(tmp_path / "credentials.yaml").users()


def test_a_credential_for_every_toolset_of_one_project_can_not_be() -> None:
    with pytest.raises(ValueError, match="named toolsets"):
        worker_rights("billing", "shop", (ANY,))


@pytest.mark.prints("agents credential add", "agents credential list", "agents credential remove")
def test_an_agent_has_a_credential_for_itself_alone(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["agents", "credential", "add", "critic-1", "--agent", "critic", "--project", "shop"]
    assert main([*words, "--deploy", str(deploy), "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["credentials"]
    assert row == {"name": "critic-1", "project": "shop", "agent": "critic"}
    written = (deploy / "authority.conf").read_text("utf-8")
    assert "run.inbox.agent.agent_shop=critic.*" in written
    assert passwords(deploy)["NATS_PASSWORD_CRITIC_1"] not in written
    assert said(deploy, "add", "critic-1", "--toolset", "mail") == 2, "a name is one user's"
    capsys.readouterr()
    assert main(["agents", "credential", "list", "--deploy", str(deploy), "-o", "json"]) == 0
    assert row in json.loads(capsys.readouterr().out)["credentials"]
    assert main(["agents", "credential", "remove", "critic-1", "--deploy", str(deploy), "-o", "json"]) == 0
    assert "agent_shop=critic" not in (deploy / "authority.conf").read_text("utf-8")
    assert "NATS_PASSWORD_CRITIC_1" not in passwords(deploy)


def clients(deploy: Path, *words: str) -> int:
    return main(["clients", "credential", *words, "--deploy", str(deploy), "-o", "json"])


@pytest.mark.prints("clients credential add", "clients credential list", "clients credential remove")
def test_a_program_that_submits_has_a_credential_in_its_own_name(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clients(deploy, "add", "web") == 0
    said_of_it = capsys.readouterr()
    assert json.loads(said_of_it.out)["credentials"] == [{"name": "web", "operates": False}]
    password = passwords(deploy)["NATS_PASSWORD_WEB"]
    assert password not in said_of_it.out + said_of_it.err
    assert (deploy / "secrets" / "web.env").read_text("utf-8") == f"TOWPATH_NATS_PASSWORD={password}\n"
    assert "task.submit.web" in (deploy / "authority.conf").read_text("utf-8")
    assert "task.pause.web" not in (deploy / "authority.conf").read_text("utf-8")

    assert clients(deploy, "add", "web", "--operates") == 0
    assert passwords(deploy)["NATS_PASSWORD_WEB"] == password
    assert "task.pause.web" in (deploy / "authority.conf").read_text("utf-8")
    capsys.readouterr()
    assert clients(deploy, "list") == 0
    assert json.loads(capsys.readouterr().out)["credentials"] == [{"name": "web", "operates": True}]

    assert clients(deploy, "remove", "web") == 0
    left = load(deploy / "credentials.yaml")
    assert (left.clients, left.operators) == ((), ())
    assert "NATS_PASSWORD_WEB" not in passwords(deploy)
    assert "task.submit.web" not in (deploy / "authority.conf").read_text("utf-8")
    assert clients(deploy, "remove", "web") != 0


@pytest.mark.parametrize("words", [(), ("--operates",)])
def test_a_program_is_shown_all_that_its_credential_may_say_and_what_it_hears(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clients", "subjects", "web", *words, "-o", "json"]) in {0, None}
    *asked, heard = json.loads(capsys.readouterr().out)["subjects"]
    rights = client_rights("web", operates=bool(words))
    assert [one["subject"] for one in asked] == [*rights.publish]
    assert all(one["does"] and one["request"] for one in asked)
    assert ("task.pause.web" in rights.publish) is bool(words)
    assert (heard["subject"], heard["request"], heard["answer"]) == ("task.live.web.*", "", "TransitionEvents")


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ((), "nats --server $TOWPATH_NATS_URL request task.submit.anonymous '{"),
        (
            ("web",),
            'nats --server $TOWPATH_NATS_URL --user web --password "$TOWPATH_NATS_PASSWORD" request task.submit.web ',
        ),
    ],
)
def test_what_to_try_logs_in_as_the_program_does(
    words: tuple[str, ...],
    asks: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["clients", "subjects", *words, "-o", "table"]) == 0
    assert f"Try it: {asks}" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "told"), [("gateway", "is a service of the platform"), ("b c", "can't be a caller")])
def test_no_subjects_are_shown_for_who_is_no_caller(name: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clients", "subjects", name]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["worker", "agent", "client"])
def test_a_credential_that_is_not_there_is_told_in_the_same_words_by_all_kinds(
    deploy: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"{kind}s", "credential", "remove", "nobody", "--deploy", str(deploy), "-o", "json"]) == 3
    assert f"{deploy / 'credentials.yaml'} has no {kind} nobody" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gateway", "worker", "nats", "b c"])
def test_no_program_that_submits_has_the_name_of_somebody_else(deploy: Path, name: str) -> None:
    before = {path.name: path.read_bytes() for path in deploy.rglob("*") if path.is_file()}
    assert clients(deploy, "add", name) != 0
    assert {path.name: path.read_bytes() for path in deploy.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["nats", "postgres", "migrate", "models", "streams", "Postgres"])
def test_no_credential_has_the_name_of_another_file_of_secrets(deploy: Path, name: str) -> None:
    before = {path.name: path.read_bytes() for path in deploy.rglob("*") if path.is_file()}
    assert said(deploy, "add", name, "--toolset", "billing") != 0
    assert {path.name: path.read_bytes() for path in deploy.rglob("*") if path.is_file()} == before


def test_every_file_of_secrets_is_a_users_or_is_reserved(deploy: Path) -> None:
    files = {path.stem for path in (deploy / "secrets").iterdir()}
    assert files - load(deploy / "credentials.yaml").users().keys() <= OTHER_SECRETS


@pytest.mark.parametrize("kind", ["workers", "agents", "clients"])
@pytest.mark.parametrize("words", [["add", "crm"], ["list"], ["remove", "crm"]])
def test_without_a_deployment_its_folder_is_asked_for_and_towpath_up_is_said_to_need_none(
    kind: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    needed = {"workers": ["--project", "shop", "--toolset", "crm"], "agents": ["--project", "shop"]}.get(kind, [])
    assert main([kind, "credential", *words, *(needed if words[0] == "add" else [])]) != 0
    told = " ".join(capsys.readouterr().err.split())
    assert "file_missing A named file can't be read: the folder deploy, which has the credentials of a dep" in told
    assert "Name that of your deployment: --deploy FOLDER. towpath up has no credentials" in told
    assert list(tmp_path.iterdir()) == []
