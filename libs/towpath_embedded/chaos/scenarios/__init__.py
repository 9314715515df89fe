"""The catalogue of faults that a schedule of kills can't show: full disks, lost stores, hostile messages, clocks.

`catalogue` says what a scenario is and finds all of them; every other module here holds scenarios and names them in
its `SCENARIOS`.
"""
