"""Rules that read the state and decide one question; they make no events."""
