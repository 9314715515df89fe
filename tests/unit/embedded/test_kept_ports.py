"""A platform at any free ports gets those of its folder's last start again, where they are free."""

import socket
import stat
from pathlib import Path

import pytest

from towpath_embedded.platform_state import PORTS_FILE, keep_ports, last_ports
from towpath_embedded.processes.ports import free_port


def test_what_was_chosen_is_chosen_again(tmp_path: Path) -> None:
    assert last_ports(tmp_path) == {}
    gateway, nats = free_port(), free_port()
    keep_ports(tmp_path, {"gateway": gateway, "nats": nats})
    assert last_ports(tmp_path) == {"gateway": gateway, "nats": nats}
    assert stat.S_IMODE((tmp_path / PORTS_FILE).stat().st_mode) == 0o600


def test_one_is_kept_while_another_changes(tmp_path: Path) -> None:
    gateway, nats, other = free_port(), free_port(), free_port()
    keep_ports(tmp_path, {"gateway": gateway, "nats": nats})
    keep_ports(tmp_path, {"nats": other})
    assert last_ports(tmp_path) == {"gateway": gateway, "nats": other}


def test_one_that_somebody_has_now_or_that_is_named_for_another_is_left(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = free_port()
        keep_ports(tmp_path, {"gateway": taken.getsockname()[1], "nats": free})
        assert last_ports(tmp_path) == {"nats": free}
    assert last_ports(tmp_path, but={None, free}).keys() == {"gateway"}


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"nats": "x", "gateway": true}', '{"nats": 0, "gateway": 65536}', "{"]
)
def test_a_file_that_says_nothing_useful_is_passed_over(text: str, tmp_path: Path) -> None:
    (tmp_path / PORTS_FILE).write_text(text, "utf-8")
    assert last_ports(tmp_path) == {}
    port = free_port()
    keep_ports(tmp_path, {"nats": port})
    assert last_ports(tmp_path) == {"nats": port}
