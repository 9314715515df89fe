"""Tools: what they are, calls of them, the policy that permits them, the audit of it all."""
