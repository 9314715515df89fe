"""The process of an agent: takes requests of its pool, calls user code, answers with facts."""
