"""OpenAI's HTTP API as far as it fits: a published network is a model, and an answer is a run."""
