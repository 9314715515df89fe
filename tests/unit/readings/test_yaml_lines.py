"""What is wrong with a text that should be YAML is told with the cure of that very case."""

from typing import Any

import pytest
import yaml

from towpath_readings.yaml_lines import describe_yaml_fault

OTHERWISE = "this line is indented otherwise than those it belongs to"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a:\n  b: 1\n   c: 2\n", 3, f"{OTHERWISE}; the line above begins in column 3, this one in column 4"),
        ("a:\n  - b: 1\n     c: 2\n", 3, f"{OTHERWISE}; the line above begins in column 5, this one in column 6"),
        ("a:\n  - b: 1\n   c: 2\n", 3, f"{OTHERWISE}; the line above begins in column 5, this one in column 4"),
        ("a: x\n\n b: 2\n", 3, f"{OTHERWISE}; the line above begins in column 1, this one in column 2"),
        ("note: shop: the big one\n", 1, 'a colon and a space inside a text; quote it: note: "shop: the big one"'),
        ('- tip: a "b": c # d\n', 1, 'a colon and a space inside a text; quote it: tip: "a \\"b\\": c"'),
        ("name: shop: the big one\n", 1, "a name has no spaces; write name: shop_the_big_one"),
        ("- key: a b: c\n", 1, "a name has no spaces; write key: a_b_c"),
        ("a: {b} c\n", 1, 'a text that begins with { is read as a mapping; quote it: a: "{b} c"'),
        ("a: 'b' c\n", 1, "the value ends before this text; quote the whole of it"),
    ],
)
@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
def test_each_fault_of_the_form_has_its_own_cure(loader: Any, text: str, line: int, said: str) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose(text, Loader=loader)
    assert describe_yaml_fault(caught.value, text) == (line, said)


def test_a_quoted_text_is_taken_as_it_is_advised() -> None:
    assert yaml.safe_load('tip: "a \\"b\\": c"') == {"tip": 'a "b": c'}
