"""`towpath chaos`: breaks a whole platform on purpose and judges what is left of it.

`judge` compares what happened outside with what Postgres says; `outside` is the file that stands for the outside world;
`scenarios` is the catalogue of faults that a plain schedule of kills can't show. It never touches a platform that it
did not start.
"""
