"""What people define: networks, swarms, plans, goals, background tasks."""
