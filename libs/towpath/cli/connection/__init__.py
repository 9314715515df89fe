"""Commands about the connection itself: which platform is asked, with what, and any operation of its API."""
