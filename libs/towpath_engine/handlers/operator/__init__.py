"""What a person does to a run from outside."""
