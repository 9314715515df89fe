"""What is wrong with arguments is told a person by field, out of the same words that a model reads."""

from towpath_tas.core.denials import argument_faults, denied_arguments, denied_long_check


def test_each_fault_names_the_field_that_is_to_be_mended() -> None:
    told = ["amount: 'x' is not of type 'number'", "rows.0.to: does not satisfy anyOf", "arguments: 'id' is required"]
    faults = argument_faults(denied_arguments("refund", told))
    assert [(fault.pointer, fault.detail) for fault in faults] == [
        ("/args/amount", "'x' is not of type 'number'"),
        ("/args/rows/0/to", "does not satisfy anyOf"),
        ("/args", "'id' is required"),
    ]


def test_marks_inside_a_fault_end_no_fault() -> None:
    (fault,) = argument_faults(denied_arguments("mail", ["to: 'a; b' does not match '^x; y$'"]))
    assert fault.detail == "'a; b' does not match '^x; y$'"


def test_another_denial_has_no_faults() -> None:
    assert argument_faults(denied_long_check("refund")) == ()
