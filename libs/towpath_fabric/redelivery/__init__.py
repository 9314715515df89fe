"""What is delivered again and again."""
