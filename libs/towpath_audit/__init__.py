"""The audit as a log that anybody can check: hashing, proofs, signed checkpoints, export bundles and their verifier.

Nothing here reads a file, a clock or a network; whoever verifies brings the lines. The library depends on nothing
of Towpath, so that an auditor can read the whole of what he trusts.
"""
