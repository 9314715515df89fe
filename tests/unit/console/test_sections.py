"""Which paths are the console's: its own, and none of the API."""

import pytest

from towpath_console.pages import ACTIONS, PAGES
from towpath_console.sections import is_console
from towpath_gateway.app.application import ROUTERS


@pytest.mark.parametrize("path", ["/", "/runs", "/runs.json", "/runs/x/steps/3", "/console/assets/a/console.css"])
def test_pages_are_the_consoles(path: str) -> None:
    assert is_console(path)


@pytest.mark.parametrize("path", ["", "x", "/run", "/v1/runs", "/openapi.json", "/runsx", "/sign-in"])
def test_other_paths_are_not(path: str) -> None:
    assert not is_console(path)


def test_every_page_and_action_is_reached() -> None:
    assert [route.path for route in (*PAGES, *ACTIONS) if not is_console(route.path)] == []


def test_no_operation_of_the_api_has_a_path_of_the_console() -> None:
    paths = {getattr(route, "path", "") for router in ROUTERS for route in router.routes}
    assert [path for path in sorted(paths) if is_console(path)] == []
