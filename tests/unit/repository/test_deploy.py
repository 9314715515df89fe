"""The deployment files agree with each other and with the code, checked without docker (CONTRIBUTING.md)."""

import importlib
import importlib.util
import inspect
import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import starlark
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from tests.support.places import ROOT

from towpath.cli.broker.broker_user_list import FILE, authority_configuration, load
from towpath_fabric.health import Health
from towpath_fabric.settings import Settings
from towpath_tas.settings import TasSettings

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
ROLES = ("gateway", "orchestrator", "decider", "tas", "worker", "log_writer", "watchdog")
ONCE = ("nats_store", "migrate", "streams", "ticket_key", "seal_key")


def compose() -> dict[str, Any]:
    """Return the compose file, with its anchors and merges resolved."""
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return loaded


def image_environment() -> dict[str, str]:
    """Return what the image's last stage sets."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8").rpartition("\nFROM ")[2].replace("\\\n", " ")
    return dict(
        pair.split("=", 1) for line in text.splitlines() if line.startswith("ENV ") for pair in line.split()[1:]
    )


def documented_ports() -> dict[str, str]:
    """Return the port of each process as the table of docs/operations.md has it."""
    section = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("\n## Ports\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (\w+) \| (\d+) \|", section, re.MULTILINE))


def fields(role: str) -> set[str]:
    """Return the TOWPATH_* variables that the service *role* reads."""
    known = {f"TOWPATH_{name.upper()}" for name in Settings.model_fields}
    if importlib.util.find_spec(f"towpath_{role}.settings") is not None:
        module = importlib.import_module(f"towpath_{role}.settings")
        for _, declared in inspect.getmembers(module, inspect.isclass):
            if issubclass(declared, Settings):
                known |= {f"TOWPATH_{name.upper()}" for name in declared.model_fields}
    return known


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What `make-secrets` makes: variables by file."""
    folder = tmp_path_factory.mktemp("deploy")
    for name in ("make-secrets", "authority.conf"):
        (folder / name).write_bytes((DEPLOY / name).read_bytes())
    subprocess.run(["bash", folder / "make-secrets"], check=True, capture_output=True)
    assert (folder / "secrets").stat().st_mode & 0o077 == 0
    files = {path.name: path.read_text("utf-8").splitlines() for path in (folder / "secrets").glob("*.env")}
    return {name: dict(line.split("=", 1) for line in lines) for name, lines in files.items()}


def env_files(service: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return a service's files of variables, and whether each must exist."""
    given = service.get("env_file", [])
    entries = given if isinstance(given, list) else [given]
    return [(e, True) if isinstance(e, str) else (e["path"], e.get("required", True)) for e in entries]


def test_the_dockerfile_has_no_finding() -> None:
    done = subprocess.run([BIN / "hadolint", DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_compose_files_follow_their_schema() -> None:
    files = [DEPLOY / "compose.yaml", DEPLOY / "monitoring" / "observability.yaml", *(DEPLOY / "open").iterdir()]
    command = [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_service_is_in_the_compose_file() -> None:
    assert set(compose()["services"]) == {"nats", "postgres", *ONCE, *ROLES}


def test_services_read_every_variable_they_are_given(secrets: dict[str, dict[str, str]]) -> None:
    image = {name for name in image_environment() if name.startswith("TOWPATH_")}
    unread = {}
    for role in ROLES:
        service = compose()["services"][role]
        given = image | set(service["environment"])
        for path, required in env_files(service):
            given |= set(secrets[Path(path).name]) if required else set()
        ours = {name for name in given if name.startswith("TOWPATH_")}
        unread[role] = ours - fields(role)
    assert unread == {role: set() for role in ROLES}


def test_every_required_file_of_secrets_is_made(secrets: dict[str, dict[str, str]]) -> None:
    named = {Path(p).name for s in compose()["services"].values() for p, required in env_files(s) if required}
    assert named == set(secrets)


def test_each_user_of_the_broker_has_its_own_password(secrets: dict[str, dict[str, str]]) -> None:
    broker = secrets["nats.env"]
    of_users = {f"NATS_PASSWORD_{user.upper()}" for user in load(DEPLOY / FILE).users()}
    assert set(broker) == of_users | {"NATS_ROUTE_PASSWORD"}
    assert len(set(broker.values())) == len(broker)
    for name, service in compose()["services"].items():
        if name in {*ROLES, "streams"}:
            user = service["environment"]["TOWPATH_NATS_USER"]
            assert secrets[f"{name}.env"]["TOWPATH_NATS_PASSWORD"] == broker[f"NATS_PASSWORD_{user.upper()}"]


def test_only_owners_of_a_schema_reach_postgres(secrets: dict[str, dict[str, str]]) -> None:
    services = compose()["services"]
    with_data = {name for name, service in services.items() if "data" in service.get("networks", ())} - {"postgres"}
    with_dsn = {name.removesuffix(".env") for name, found in secrets.items() if "TOWPATH_DATABASE_URL" in found}
    assert with_data == with_dsn == {"migrate", "orchestrator", "tas", "gateway", "log_writer"}


def test_probes_ask_for_paths_and_ports_that_the_services_answer() -> None:
    for role in ROLES:
        service = compose()["services"][role]
        variable = "TOWPATH_GATEWAY_PORT" if role == "gateway" else "TOWPATH_HEALTH_PORT"
        port = service["environment"][variable]
        asked = " ".join(service["healthcheck"]["test"]).replace(f"{{os.environ['{variable}']}}", port)
        (found,) = re.findall(r"http://127\.0\.0\.1:(\d+)/(\w+)['\"]", asked)
        assert found[0] == port == documented_ports()[role]
        assert hasattr(Health, found[1])


def test_each_process_has_a_port_of_its_own_which_prometheus_asks_and_pages_name() -> None:
    ports = documented_ports()
    assert set(ports) == set(ROLES) and len(set(ports.values())) == len(ROLES)
    assert Settings.model_fields["health_port"].default == 0, "several processes of one machine start without a word"
    scrapes = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    [targets] = [one["targets"] for scrape in scrapes for one in scrape["static_configs"]]
    assert targets == [f"{role}:{port}" for role, port in ports.items()]
    for page in (DEPLOY / "open" / "metrics.yaml", DEPLOY / "monitoring" / "rules_test.yaml"):
        named = dict(re.findall(rf"\b({'|'.join(ROLES)}):(\d{{4}})\b", page.read_text("utf-8")))
        assert named and named.items() <= ports.items(), page


def test_commands_of_the_compose_file_exist() -> None:
    shows: dict[str, subprocess.CompletedProcess[str]] = {}
    for name in (*ROLES, *ONCE):
        words = compose()["services"][name]["command"]
        assert words[:2] == (["serve", name] if name in ROLES else words[:2])
        if (shown := shows.get(words[0])) is None:
            command = [BIN / "towpath", words[0], "--help"]
            shown = shows[words[0]] = subprocess.run(command, capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stderr
        if name in ROLES:
            assert importlib.util.find_spec(f"towpath_{name}.__main__") is not None
        else:
            assert all(word in shown.stdout for word in words[1:2])


def test_the_image_runs_as_nobody_in_particular_and_stops_when_asked() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert "USER 10001" in text
    assert "STOPSIGNAL SIGTERM" in text
    assert "/livez" in text
    assert "--require-hashes" in text


def test_the_brokers_rights_are_those_of_the_code() -> None:
    written = (DEPLOY / "authority.conf").read_text("utf-8")
    made = authority_configuration(load(DEPLOY / FILE).users())
    assert written == made, "run: towpath streams authority > deploy/authority.conf"


def test_the_broker_reads_its_configuration(tmp_path: Path, secrets: dict[str, dict[str, str]]) -> None:
    for name in ("nats.conf", "authority.conf"):
        (tmp_path / name).write_text((DEPLOY / name).read_text("utf-8"), "utf-8")
    command = [BIN / "nats-server", "-t", "-c", tmp_path / "nats.conf"]
    done = subprocess.run(command, env=secrets["nats.env"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def tilt() -> dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Run the Tiltfile with stand-ins for Tilt's functions and return what it asked for."""
    asked: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {}
    module = starlark.Module()

    def stand_in(name: str) -> Any:
        def record(*args: Any, **options: Any) -> Any:
            asked.setdefault(name, []).append((args, options))
            return args[0] if name == "encode_yaml" else name

        return record

    for name in (
        *("analytics_settings", "docker_build", "docker_compose", "dc_resource", "local_resource", "link"),
        *("fall_back_on", "sync", "restart_container", "encode_yaml"),
    ):
        module.add_callable(name, stand_in(name))
    module["TRIGGER_MODE_MANUAL"] = "manual"
    source = (ROOT / "Tiltfile").read_text("utf-8")
    starlark.eval(module, starlark.parse("Tiltfile", source), starlark.Globals.standard())
    return asked


def test_the_tiltfile_runs_the_same_processes_as_the_compose_file() -> None:
    asked = tilt()
    (files, *_), _ = asked["docker_compose"][0]
    assert files[0] == "deploy/compose.yaml"
    assert {args[0] for args, _ in asked["dc_resource"]} == set(compose()["services"])
    assert set(files[1]["services"]) == set(ROLES)


def test_the_tiltfile_builds_the_image_of_the_compose_file() -> None:
    asked = tilt()
    (image, context), options = asked["docker_build"][0]
    assert image == compose()["services"]["gateway"]["image"]
    assert (ROOT / context / options["dockerfile"]).is_file()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert sorted(args[0] for args, _ in asked["sync"]) == sorted(wheel["packages"])
    assert all((ROOT / name).exists() for name in options["only"])


def test_what_the_dockerfile_copies_is_sent_to_the_build() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]}
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*" and all((ROOT / word).exists() for word in copied)
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    _, options = tilt()["docker_build"][0]
    assert copied == set(options["only"])
    [fallback] = [args[0] for args, _ in tilt()["fall_back_on"]]
    assert {word for word in copied if word.startswith("deploy/")} <= set(fallback)


def test_no_role_of_postgres_takes_all_connections_and_each_has_enough_for_four_replicas() -> None:
    text = (DEPLOY / "roles.sh").read_text("utf-8")
    roles = re.findall(r"for role in (.*); do", text)[0].split()
    (limit,) = map(int, re.findall(r"^limit=(\d+)$", text, re.MULTILINE))
    assert len(roles) * limit <= 90, "Postgres has 100, some of them for its owner and migrations"
    assert limit >= 4 * Settings.model_fields["database_pool"].default
    assert limit >= 3 * TasSettings.model_fields["database_pool"].default


def pinned(name: str) -> dict[str, str]:
    """Return the exact versions of a file of requirements in deploy/."""
    text = (DEPLOY / name).read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\]+)", text, re.MULTILINE))


def stale(wanted: list[Requirement], versions: dict[str, str]) -> list[str]:
    """Return which of *wanted* no exact version fulfils."""
    return [
        str(wish)
        for wish in wanted
        if wish.name != "towpath"
        and (wish.name not in versions or not wish.specifier.contains(Version(versions[wish.name])))
    ]


def test_the_pinned_requirements_are_not_stale() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = {name: lines for name, lines in project["project"]["optional-dependencies"].items() if name != "testing"}
    lines = [project["project"]["dependencies"], *extras.values()]  # nobody tests agents in the image
    wanted = [Requirement(line) for line in itertools.chain(*lines)]
    assert stale(wanted, pinned("requirements.txt")) == [], "compile deploy/requirements.txt again (CONTRIBUTING.md)"
    builds = [Requirement(line) for line in project["dependency-groups"]["image"]]
    builds += [Requirement(line) for line in project["build-system"]["requires"]]
    assert stale(builds, pinned("build-requirements.txt")) == [], "compile it again (CONTRIBUTING.md)"


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_every_pinned_requirement_has_hashes_and_no_address(name: str) -> None:
    text = (DEPLOY / name).read_text("utf-8")
    assert "://" not in text
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=\S)", text.strip()))
