"""Sessions of users."""

from signing import sign


def cookie(user):
    """Return the Set-Cookie header of a session."""
    token = sign(user, expires_s=365 * 24 * 3_600)
    return f"session={token}; HttpOnly"
