"""`towpath chaos`: breaks a whole platform on purpose and judges what is left of it.

A campaign starts a platform of its own, lets runs of a network cross it, and strikes with a fault at every event of
those runs. It never touches a platform that it did not start. Scenarios that need more than that (forged disks, wrong
clocks, hostile messages) are in `tests/chaos` of the repository.
"""
