"""Goal runs: validation of steps, progress, retries, confidence checks, and help after denials."""
