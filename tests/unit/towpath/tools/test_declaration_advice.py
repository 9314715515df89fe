"""What a tool should declare is told from its words, with the reason; what it lacks is named, and nothing else."""

from typing import Any

import pytest

from towpath.tools.declaration_advice import advise, words_of
from towpath.tools.declaration_lint import lint_declaration
from towpath_contracts.tools.calls import ToolSpec

TEXT = {"type": "string"}
MANY = {"type": "array", "items": TEXT}


def spec(name: str, properties: dict[str, Any] | None = None, **more: Any) -> ToolSpec:
    parameters = {"type": "object", "properties": properties or {}}
    return ToolSpec(**{"name": name, "toolset": "t", "description": "Does it.", "parameters": parameters, **more})


def advised(tool: ToolSpec, output: dict[str, Any] | None = None) -> dict[str, Any]:
    return {one.field: one.value for one in advise(tool, output)}


def test_names_are_read_word_by_word() -> None:
    assert words_of("mail.sendTo_user2 HTTPLink") == ("mail", "send", "to", "user", "http", "link")


@pytest.mark.parametrize(
    ("tool", "found"),
    [
        (spec("crm.find_customer", {"name": TEXT}), {"effect_class": "pure"}),
        (spec("clock.now", description="Gets the time."), {"effect_class": "pure"}),
        (spec("clock.now", description="Returns the time."), {}),
        (spec("web.fetch_page", {"url": TEXT}), {"effect_class": "pure", "sinks": ("url",)}),
        (spec("sendMail", {"to": MANY, "cc": MANY, "subject": TEXT, "body": TEXT}), {"sinks": ("to", "cc")}),
        (spec("orders.cancel", {"order_id": TEXT, "reason": TEXT}), {"sinks": ("order_id",), "hazards": ("destroy",)}),
        (spec("pay_invoice", {"iban": TEXT, "cents": TEXT}), {"sinks": ("iban",), "hazards": ("spend",)}),
        (spec("set_password", {"password": TEXT}), {"sinks": ("password",), "hazards": ("credentials",)}),
        (spec("book.table", {"table": TEXT, "time": TEXT}), {"sinks": ("table",)}),
        (
            spec("do_it", {"what": {"type": "string", "description": "E-mail address of the boss"}}),
            {"sinks": ("what",)},
        ),
        (spec("do_it", {"what": {"type": "string", "format": "email"}}), {"sinks": ("what",)}),
        (spec("do_it", {"what": TEXT}), {}),
        (spec("post_it", {"account": TEXT}, system_params=("account",)), {}),
        (spec("get_rid_and_delete", description="Deletes."), {"hazards": ("destroy",)}),
        (spec("get_rid"), {}),
        (spec("find_and_delete"), {"hazards": ("destroy",)}),
        (spec("find_and_refund"), {"hazards": ("spend",)}),
        (spec("get_or_create_user"), {}),
        (spec("fetch_then_pay"), {"hazards": ("spend",)}),
        (spec("return_item"), {}),
        (spec("open_account"), {}),
        (spec("check_out_cart"), {}),
        (spec("search_and_replace"), {}),
        (spec("wipe", description="Finds and wipes all rows"), {"hazards": ("destroy",)}),
        (spec("purge_all", description="Gets everything out."), {"hazards": ("destroy",)}),
        (spec("tidy", description="Finds old rows and deletes them."), {}),
        (spec("find_rows", description="Find rows, then remove the oldest."), {}),
        (spec("get_refund", description="Get a refund."), {"effect_class": "pure"}),
        (spec("list_posts", description="Lists the posts of a user."), {"effect_class": "pure"}),
    ],
)
def test_declarations_are_suggested_from_words(tool: ToolSpec, found: dict[str, Any]) -> None:
    wanted = {name: value for name, value in found.items() if value != ()}
    assert advised(tool) == wanted


def test_sinks_are_found_in_lists_alternatives_and_shared_definitions() -> None:
    line = {"type": "object", "properties": {"account": TEXT, "cents": {"type": "integer"}}}
    parameters = {
        "type": "object",
        "properties": {
            "lines": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Line"}}, {"type": "null"}]},
            "loop": {"$ref": "#/$defs/Loop"},
        },
        "$defs": {"Line": line, "Loop": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Loop"}}}},
    }
    assert advised(spec("pay", parameters=parameters))["sinks"] == ("lines.account",)


def test_fields_that_the_service_keeps_are_suggested_as_records_and_texts_are_not() -> None:
    mail = {"type": "object", "properties": {"id_": TEXT, "sender": TEXT, "body": TEXT, "subject": TEXT}}
    found = advised(spec("list_mails"), {"type": "array", "items": mail})
    assert found["trusted_fields"] == ("id_", "sender")


def codes(tool: ToolSpec, output: dict[str, Any] | None = None) -> set[str]:
    return {gap.code for gap in lint_declaration(tool, output)}


MAIL = {"to": MANY, "cc": MANY, "body": TEXT}
RECORDS = {"type": "object", "properties": {"id": TEXT, "body": TEXT}}


@pytest.mark.parametrize(
    ("tool", "output", "lacking"),
    [
        (spec("find_order", {"order": TEXT}, effect_class="pure"), None, set()),
        (spec("find_order", {"order": TEXT}), None, {"effect_class", "sinks"}),
        (spec("send_mail", MAIL), None, {"sinks"}),
        (spec("send_mail", MAIL, sinks=("to",)), None, {"sinks_missing"}),
        (spec("send_mail", MAIL, sinks=("to", "cc")), None, set()),
        (spec("send_mail", MAIL, effect_class="pure"), None, {"pure_writer", "sinks"}),
        (spec("find_and_delete", effect_class="pure"), None, {"pure_writer"}),
        (spec("search_and_replace", effect_class="pure"), None, {"pure_writer"}),
        (spec("list_posts", effect_class="pure"), None, set()),
        (spec("delete_mail", {"mail_id": TEXT}, sinks=("mail_id",)), None, {"hazards"}),
        (spec("delete_mail", {"mail_id": TEXT}, sinks=("mail_id",), hazards=("destroy",)), None, set()),
        (spec("get_page", {"url": TEXT}, effect_class="pure"), None, {"sinks"}),
        (spec("get_page", {"url": TEXT}, effect_class="pure", sinks=("url",)), None, set()),
        (spec("read_inbox", effect_class="pure", trusted_output=True), None, {"trusted_output"}),
        (spec("read_inbox", effect_class="pure"), RECORDS, {"trusted_fields"}),
        (spec("read_inbox", effect_class="pure", trusted_fields=("id",)), RECORDS, set()),
        (spec("ring", sinks=(), description=" "), None, {"description"}),
        (spec("ring"), None, set()),
    ],
)
def test_a_declaration_is_told_what_it_lacks(tool: ToolSpec, output: dict[str, Any] | None, lacking: set[str]) -> None:
    assert codes(tool, output) == lacking


def test_a_tool_that_declares_what_is_suggested_lacks_nothing() -> None:
    for bare in (spec("sendMail", MAIL), spec("web.fetch", {"url": TEXT}), spec("cancel", {"order_id": TEXT})):
        declared = ToolSpec.model_validate({**bare.model_dump(), **advised(bare)})
        assert codes(declared) == set()


@pytest.mark.parametrize(("levels", "sinks"), [(6, ("part.part.part.part.part.account",)), (7, ())])
def test_sinks_are_looked_for_six_levels_down(levels: int, sinks: tuple[str, ...]) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"account": TEXT}}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"part": schema}}
    assert advised(spec("pay", parameters=schema)).get("sinks", ()) == sinks


@pytest.mark.parametrize(
    ("tool", "code", "remedy"),
    [
        (spec("refund", effect_class="pure"), "pure_writer", 'effect_class="irreversible", or "idempotent" or'),
        (spec("do_it", {"what": TEXT}, effect_class="idempotent"), "sinks", "sinks=[] if no argument says where"),
        (spec("clock.now", effect_class="pure", description=" "), "description", "a docstring below its def, or desc"),
    ],
)
def test_what_a_declaration_lacks_comes_with_what_to_write(tool: ToolSpec, code: str, remedy: str) -> None:
    (found,) = [gap for gap in lint_declaration(tool) if gap.code == code]
    assert found.remedy.startswith(remedy)
