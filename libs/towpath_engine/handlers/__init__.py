"""What the run machine does with each fact: handlers decide, and return events and effects."""
