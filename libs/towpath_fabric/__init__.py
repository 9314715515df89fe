"""What every service needs for I/O: settings, clock, broker, database, telemetry, health.

Fabric knows the message contracts and the outside world. It knows nothing of runs, tools or policies, and no service's
core may import it.
"""
