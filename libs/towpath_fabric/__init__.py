"""What every service shell needs and no core may see: settings, clock, broker, database, telemetry, health.

Fabric knows contracts and the outside world; it knows nothing of runs, tools or policies.
"""
