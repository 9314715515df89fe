"""From committed transitions to messages: who gets which, when, and when again."""
