"""The units of deploy/systemd: the processes of the compose file, each a user of its own, with few rights."""

import ipaddress
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.places import ROOT
from tests.unit.repository.test_deploy import ROLES, documented_ports, fields

from towpath_contracts.authority import SERVICES
from towpath_fabric.settings import Settings
from towpath_fabric.startup.process_end import DENIED, WRONG_SETTINGS

UNITS = ROOT / "deploy" / "systemd"
GUIDE = ROOT / "docs" / "guides" / "three-machines.md"
SERVICE, WORKER, BROKER = "towpath@.service", "towpath-worker@.service", "towpath-nats.service"
INSTANCES = {SERVICE: "towpath@tas.service", WORKER: "towpath-worker@orders.service", BROKER: BROKER}
EXPOSURE = {SERVICE: 15, WORKER: 45, BROKER: 20}
"""What `systemd-analyze security` may say of each, in tenths; sandboxes of tools need namespaces of their own."""

Unit = dict[str, list[str]]


def commands(text: str) -> list[list[str]]:
    """Return the words of each command of a page's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line]


def unit(name: str) -> Unit:
    """Return the values of every key of a unit, sections aside."""
    found: Unit = defaultdict(list)
    for line in (UNITS / name).read_text("utf-8").splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def variables(name: str) -> dict[str, str]:
    """Return what a file of settings sets."""
    lines = (UNITS / "settings" / name).read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def given(role: str) -> dict[str, str]:
    """Return what a process has in its environment besides secrets."""
    name, settings = (WORKER, "worker-orders.env") if role == "worker" else (SERVICE, f"{role}.env")
    found = {**variables("common.env"), **variables(settings)}
    drop_ins = [part for path in UNITS.glob(f"towpath@{role}.service.d/*") for part in [unit(str(path))]]
    for one in (unit(name), *drop_ins):
        for line in one["Environment"]:
            found |= dict(word.split("=", 1) for word in line.split())
    return found


def test_there_is_a_user_for_every_role() -> None:
    users = set(re.findall(r"^u (\S+) ", (UNITS / "towpath.sysusers.conf").read_text("utf-8"), re.MULTILINE))
    assert users == {f"towpath-{role}" for role in set(ROLES) - {"worker"}} | {"towpath-nats"}
    assert unit(SERVICE)["User"] == ["towpath-%i"] and unit(WORKER)["User"] == ["towpath-worker-%i"]
    assert unit(BROKER)["User"] == ["towpath-nats"]
    assert set(ROLES) - {"worker"} <= set(SERVICES), "%i is the user of the broker, too"
    assert all("TOWPATH_NATS_USER=%i" in unit(name)["Environment"][0] for name in (SERVICE, WORKER))


def test_the_guide_has_users_made_where_systemd_looks_for_them() -> None:
    """A relative path is looked up in folders of the system, whatever the working directory, and passed over there."""
    made = [words for words in commands(GUIDE.read_text("utf-8")) if words[0] == "systemd-sysusers"]
    assert made and all(words == ["systemd-sysusers"] for words in made)
    files = [words[-1] for words in commands(GUIDE.read_text("utf-8")) if any("sysusers.d/" in word for word in words)]
    assert files == ["/etc/sysusers.d/towpath.conf", "/etc/sysusers.d/towpath-worker-orders.conf"]


def test_shells_of_the_guide_take_variables_from_files_with_comments(tmp_path: Path) -> None:
    """`export $(cat …)` reads comments as names."""
    lines = [line for line in GUIDE.read_text("utf-8").splitlines() if line.startswith("export $(grep")]
    assert len(lines) == 2
    (tmp_path / "migrate.env").write_text("TOWPATH_DATABASE_URL=postgresql://o:p@one,two/t?a=b&c=d\n", "utf-8")
    for line in lines:
        words = re.sub(r"(?:deploy|/etc/towpath)/secrets/\w+\.env", str(tmp_path / "migrate.env"), line)
        words = words.replace("/etc/towpath/settings", str(UNITS / "settings"))
        done = subprocess.run(["bash", "-ec", f"{words}\nenv"], capture_output=True, text=True, env={}, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "TOWPATH_DATABASE_URL=postgresql://o:p@one,two/t?a=b&c=d" in done.stdout.splitlines()
        assert f"TOWPATH_NATS_URL={variables('common.env')['TOWPATH_NATS_URL']}" in done.stdout.splitlines()


def test_a_standby_of_the_guide_waits_for_nobody_once_it_is_promoted() -> None:
    """A copy has the primary's settings, and its own name would be among those that it waits for."""
    text = GUIDE.read_text("utf-8")
    copied, reset = text.index("pg_basebackup "), text.index("ALTER SYSTEM RESET synchronous_standby_names")
    assert copied < reset < text.index("ALTER SYSTEM SET synchronous_standby_names") < text.index("pg_promote()")


def test_the_guide_starts_and_stops_postgres_by_the_name_of_its_cluster() -> None:
    """Debian's `postgresql` is active from its installation on, whatever the server does: starting it does nothing."""
    told = [
        words for words in commands(GUIDE.read_text("utf-8")) if words[0] == "systemctl" and "postgresql" in words[-1]
    ]
    assert [words[1:] for words in told if words[1] != "disable"] == [
        ["stop", "postgresql@18-main"],
        ["start", "postgresql@18-main"],
        ["start", "postgresql@18-main"],
    ]
    assert ["systemctl", "disable", "postgresql"] in told


def test_certificates_of_the_guide_are_good_for_servers_and_clients(tmp_path: Path) -> None:
    """Newer Pythons check them more strictly than others by default."""
    made = [line for line in GUIDE.read_text("utf-8").splitlines() if line.startswith("openssl ")]
    assert len(made) == 3
    for line in made:
        subprocess.run(["bash", "-ec", line], cwd=tmp_path, capture_output=True, check=True)
    for purpose in ("sslserver", "sslclient"):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.pem"]
        named = ("-verify_hostname", "one") if purpose == "sslserver" else ()
        subprocess.run([*command, *named, "nats.pem"], cwd=tmp_path, capture_output=True, check=True)


def test_the_guide_waits_for_a_machine_before_the_next() -> None:
    asked = [words for words in commands(GUIDE.read_text("utf-8")) if words[0] == "curl"]
    assert len(asked) == 2
    for words in asked:
        assert "--retry-all-errors" in words and int(words[words.index("--retry") + 1]) >= 120


def test_the_guide_says_where_every_secret_lies(tmp_path: Path) -> None:
    shutil.copytree(UNITS.parent, tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    subprocess.run([tmp_path / "deploy" / "make-secrets"], capture_output=True, check=True)
    told = GUIDE.read_text("utf-8")
    made = {path.name for path in (tmp_path / "deploy" / "secrets").iterdir()}
    assert {name for name in made if name not in told} == set()


@pytest.mark.parametrize("role", ROLES)
def test_a_process_reads_every_variable_that_it_is_given(role: str) -> None:
    ours = {name for name in given(role) if name.startswith("TOWPATH_")}
    assert ours - fields(role) == set()


def test_processes_of_one_machine_have_ports_of_their_own() -> None:
    variables = {role: "TOWPATH_GATEWAY_PORT" if role == "gateway" else "TOWPATH_HEALTH_PORT" for role in ROLES}
    assert {role: given(role)[name] for role, name in variables.items()} == documented_ports()


def test_units_start_the_entry_point_that_the_project_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert "towpath" in project["scripts"]
    assert unit(SERVICE)["ExecStart"] == ["/opt/towpath/bin/towpath serve %i"]
    assert unit(WORKER)["ExecStart"] == ["/opt/towpath/bin/towpath serve worker $TOOLS"]
    assert "/opt/towpath/bin" in (ROOT / "deploy" / "Dockerfile").read_text("utf-8")


@pytest.mark.parametrize("name", [SERVICE, WORKER])
def test_a_process_that_somebody_has_to_mend_first_is_not_started_again(name: str) -> None:
    read = unit(name)
    assert read["Restart"] == ["on-failure"] and read["StartLimitIntervalSec"] == ["0"]
    assert [*map(int, read["RestartPreventExitStatus"][0].split())] == [WRONG_SETTINGS, DENIED]
    grace = float(variables("common.env")["TOWPATH_STOP_GRACE_S"])
    assert Settings.model_fields["stop_grace_s"].default <= grace <= int(read["TimeoutStopSec"][0]) - 5


@pytest.mark.parametrize("name", INSTANCES)
def test_secrets_are_read_by_systemd_and_out_of_the_process_reach(name: str) -> None:
    read = unit(name)
    secrets = [path for path in read["EnvironmentFile"] if "/secrets/" in path]
    assert secrets == [f"/etc/towpath/secrets/{'nats' if name == BROKER else '%i'}.env"]
    assert read["InaccessiblePaths"] == ["-/etc/towpath/secrets"]
    for key in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictSUIDSGID"):
        assert read[key] == ["yes"], key
    assert read["ProtectSystem"] == ["strict"] and read["UMask"] == ["0077"] and read["StateDirectoryMode"] == ["0700"]
    assert read["CapabilityBoundingSet"] == read["AmbientCapabilities"] == [""]


def test_only_the_decider_has_keys_of_models_and_only_tas_those_that_sign() -> None:
    found = {path.parent.name: unit(str(path)) for path in UNITS.glob("*.service.d/*.conf")}
    assert set(found) == {"towpath@decider.service.d", "towpath@tas.service.d", f"{WORKER}.d"}
    assert found["towpath@decider.service.d"]["EnvironmentFile"] == ["-/etc/towpath/secrets/models.env"]
    state = unit(SERVICE)["StateDirectory"][0].replace("%i", "tas")
    assert {given("tas")[f"TOWPATH_{key}_KEY_FILE"] for key in ("TICKET", "SEAL")} == {
        f"/var/lib/{state}/{key}.key" for key in ("ticket", "seal")
    }


def test_tools_reach_the_broker_and_who_resolves_names_until_a_pool_is_given_more() -> None:
    assert unit(WORKER)["IPAddressDeny"] == ["any"] and "IPAddressAllow" not in unit(WORKER)
    drop_in = unit(f"{WORKER}.d/addresses.conf")
    assert set(drop_in) == {"IPAddressAllow"}
    brokers, resolver = (line.split() for line in drop_in["IPAddressAllow"])
    assert len(brokers) == len(variables("common.env")["TOWPATH_NATS_URL"].split(",")) and len(resolver) == 1
    documentation = ipaddress.ip_network("192.0.2.0/24")
    assert all(ipaddress.ip_address(one) in documentation for one in (*brokers, *resolver)), "nobody's real ones"


@pytest.mark.parametrize("name", INSTANCES)
def test_systemd_finds_nothing_in_a_unit_where_it_is_there(tmp_path: Path, name: str) -> None:
    text = (UNITS / name).read_text("utf-8")
    assert re.findall(r"^\[(\w+)\]$", text, re.MULTILINE) == ["Unit", "Service", "Install"]
    path = tmp_path / INSTANCES[name]
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE), "utf-8")
    for folder in UNITS.glob("*.service.d"):
        shutil.copytree(folder, tmp_path / folder.name)
    if (program := shutil.which("systemd-analyze")) is None:
        return
    quiet = {**os.environ, "SYSTEMD_COLORS": "0"}
    said = subprocess.run([program, "verify", path], capture_output=True, text=True, env=quiet, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    limit = f"--threshold={EXPOSURE[name]}"
    command = [program, "security", "--offline=true", "--no-pager", limit, path]
    assert subprocess.run(command, capture_output=True, env=quiet, check=False).returncode == 0


def test_a_node_of_the_broker_reads_its_configuration(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path, "ca")
    authority.issue("nats")
    text = (UNITS / "nats-cluster.conf").read_text("utf-8")
    text = text.replace("/etc/towpath/tls", str(tmp_path)).replace("/var/lib/towpath-nats", str(tmp_path / "data"))
    rights = (ROOT / "deploy" / "authority.conf").read_text("utf-8")
    (tmp_path / "nats-cluster.conf").write_text(text, "utf-8")
    (tmp_path / "authority.conf").write_text(rights, "utf-8")
    passwords = dict.fromkeys(re.findall(r"\$(NATS_PASSWORD_\w+)", rights), "password")
    command = [Path(sys.executable).parent / "nats-server", "-t", "-c", tmp_path / "nats-cluster.conf"]
    environment = {**passwords, **variables("nats.env")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"/var/lib/{unit(BROKER)['StateDirectory'][0]}" in (UNITS / "nats-cluster.conf").read_text("utf-8")
    lame = re.search(r'^lame_duck_duration: "(\d+)s"$', text, re.MULTILINE)
    assert lame is not None and int(lame[1]) + 10 <= int(unit(BROKER)["TimeoutStopSec"][0])
    assert unit(BROKER)["KillSignal"] == ["SIGUSR2"]


def test_nodes_of_units_chart_and_scenarios_leave_one_that_is_silent_after_the_same_time() -> None:
    """Without these a node keeps routes to one that is cut off for up to 90 s, and sends requests over them."""
    places = (
        "deploy/systemd/nats-cluster.conf",
        "deploy/chart/templates/broker.yaml",
        "tests/chaos/servers/broker_cluster.py",
    )
    for place in places:
        text = (ROOT / place).read_text("utf-8")
        assert re.findall(r'ping_interval: "2s"', text) and re.findall(r"ping_max: 2\b", text), place


def test_brokers_leave_a_client_that_is_silent_after_the_same_time_everywhere() -> None:
    """Without these one that is cut off stays for six minutes, and is sent its share of the requests."""
    places = (
        *("deploy/systemd/nats-cluster.conf", "deploy/chart/templates/broker.yaml", "deploy/nats.conf"),
        "tests/chaos/servers/broker_cluster.py",
    )
    for place in places:
        text = (ROOT / place).read_text("utf-8")
        assert re.findall(r'ping_interval: "2s"(?: #[^\n]*|\\n)\s*ping_max: 3\b', text), place


def test_a_node_tells_others_its_name_which_its_certificate_has_and_not_its_address() -> None:
    """Nodes that hear of addresses try them again and again, and no certificate holds for one."""
    text = (UNITS / "nats-cluster.conf").read_text("utf-8")
    cluster = text[text.index("\ncluster {") : text.index("\n}", text.index("\ncluster {"))]
    assert "\n  advertise: $NATS_NODE\n" in cluster and "\nclient_advertise: $NATS_NODE\n" in text
    assert variables("nats.env")["NATS_NODE"] == "one", "with the ports of the configuration"


def test_every_process_knows_all_nodes_of_the_broker_and_speaks_tls_to_them() -> None:
    common, node = variables("common.env"), variables("nats.env")
    names = {node["NATS_NODE"], *(node[f"NATS_ROUTE_{number}"].split("/")[2].split(":")[0] for number in (1, 2))}
    nodes = common["TOWPATH_NATS_URL"].split(",")
    assert {url.removeprefix("tls://").removesuffix(":4222") for url in nodes} == names
    assert common["TOWPATH_STREAM_REPLICAS"] == str(len(names)) == "3"
    assert common["TOWPATH_NATS_TLS_CA"]
