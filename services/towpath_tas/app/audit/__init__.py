"""The audit log: sealing, export, proofs, retention."""
