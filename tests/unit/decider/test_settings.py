"""What the decider reads from its environment, and what it never shows."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from towpath_contracts.decisions.request import Usage
from towpath_decider.adapters.model_prices import cached_part, price
from towpath_decider.adapters.script_source import FileScriptSource, ScriptLoadError
from towpath_decider.settings import DeciderSettings


def test_the_key_is_read_under_its_own_name_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "very-secret")
    settings = DeciderSettings.load()
    assert settings.gemini_api_key is not None
    assert settings.gemini_api_key.get_secret_value() == "very-secret"
    assert "very-secret" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_scripts_play_only_where_they_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOWPATH_EMBEDDED", raising=False)
    assert not DeciderSettings.load().scripts_allowed
    monkeypatch.setenv("TOWPATH_ALLOW_SCRIPTS", "1")
    assert DeciderSettings.load().scripts_allowed
    monkeypatch.delenv("TOWPATH_ALLOW_SCRIPTS")
    monkeypatch.setenv("TOWPATH_EMBEDDED", "1")
    assert DeciderSettings.load().scripts_allowed


def test_a_known_model_has_a_price_and_an_unknown_one_has_none() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100, total_tokens=1_000_100, model_calls=1)
    known = price("google", "gemini-2.5-flash", usage)
    assert known.price_known
    assert known.usd == pytest.approx(0.30025)
    assert known.price_source.startswith("genai-prices ")
    half = usage.model_copy(update={"cached_tokens": 500_000})
    assert price("google", "gemini-2.5-flash", half).usd == pytest.approx(0.16525)
    unknown = price("google", "nobody-knows-this", usage)
    assert (unknown.usd, unknown.price_known) == (None, False)


@pytest.mark.parametrize(("provider", "model"), [("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-5")])
def test_no_count_of_a_provider_is_worth_a_paid_answer(provider: str, model: str) -> None:
    """Parts above the whole are cut to it; what can't be counted is of unknown price, and nothing is raised."""
    usage = Usage(input_tokens=10, output_tokens=1, total_tokens=11)
    assert [cached_part(10, counted) for counted in (20, 10, 8, -1, None, "many")] == [10, 10, 8, 0, 0, 0]
    assert cached_part(-4, 8) == 0
    assert price(provider, model, usage.model_copy(update={"cached_tokens": 8, "cache_write_tokens": 2})).price_known
    for wrong in (usage.model_copy(update={"input_tokens": -4}), usage.model_copy(update={"output_tokens": 10**400})):
        assert price(provider, model, wrong).usd is None


def test_a_script_file_is_found_in_the_folder_and_read_again_when_it_changed(tmp_path: Path) -> None:
    scripts = FileScriptSource(tmp_path)
    (tmp_path / "demo.json").write_text('[{"action": "RESPOND"}]')
    assert len(scripts.get("demo")) == len(scripts.get("demo.json")) == 1
    (tmp_path / "demo.json").write_text('[{"action": "RESPOND"}, {"action": "RESPOND"}]')
    assert len(scripts.get("demo")) == 2


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "link", "absent", "", "."])
def test_a_script_outside_the_folder_is_not_read(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (tmp_path / "secret.json").write_text("[]")
    (folder / "link").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ScriptLoadError) as caught:
        FileScriptSource(folder).get(name)
    assert caught.value.failure.code == "script_missing"
    assert not caught.value.failure.retryable


def test_a_script_file_that_is_no_script_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ScriptLoadError) as caught:
        FileScriptSource(tmp_path).get("bad")
    assert caught.value.failure.code == "script_invalid"
    (tmp_path / "bad.json").write_text('[\n{"action": "RESPOND"},\n]')
    with pytest.raises(ScriptLoadError, match=r"^the script bad\.json: .* at line 3 column 1$"):
        FileScriptSource(tmp_path).get("bad")
    with pytest.raises(ScriptLoadError, match="TOWPATH_SCRIPT_DIR"):
        FileScriptSource(None).get("bad")


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ('{"opnai": {"concurrency": 1}}', "not of opnai"),
        ('{"openai": {"concurency": 1}}', "concurency"),
        ('{"local:m": {"requests_per_minute": 0}}', "requests_per_minute"),
    ],
)
def test_a_limit_of_nobody_or_of_nothing_is_refused(limits: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_PROVIDER_LIMITS", limits)
    with pytest.raises(ValidationError, match=named):
        DeciderSettings()


def test_limits_are_of_a_provider_or_of_one_of_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_PROVIDER_LIMITS", '{"local": {"concurrency": 2}, "openai:m": {"tokens_per_minute": 9}}')
    limits = DeciderSettings().provider_limits
    assert (limits["local"].concurrency, limits["openai:m"].tokens_per_minute) == (2, 9)
