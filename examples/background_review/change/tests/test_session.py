"""Tests of sessions."""

from session import cookie


def test_a_cookie_is_out_of_reach_of_scripts():
    """Scripts can't read the cookie."""
    assert "HttpOnly" in cookie("ann")
