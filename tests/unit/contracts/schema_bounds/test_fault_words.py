"""What the library of JSON Schema says of a value that lacks a member is put in words for who sees no schema."""

from towpath_contracts.json_schema import fault_in_words, schema_faults


def test_a_missing_member_is_told_to_be_missing() -> None:
    schema = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}
    assert schema_faults(schema, {}) == ("$: 'score' is missing",)
    assert schema_faults(schema, {"score": "x"}) == ("$.score: 'x' is not of type 'number'",)


def test_other_words_stay() -> None:
    assert fault_in_words("3 is not of type 'string'") == "3 is not of type 'string'"
