"""Where the values of the platform's own stand, in protocols that leave room for them."""

OWN = "towpath"
"""Their key: in `metadata`, in the state of an application, in what it forwards."""
