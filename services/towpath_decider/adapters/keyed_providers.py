"""The providers that are asked over the network, as a decider and a harness have them: without a broker or a server."""

from towpath_decider.adapters.anthropic_messages import ClaudeProvider
from towpath_decider.adapters.gemini import GeminiProvider
from towpath_decider.adapters.openai_chat import OpenAiProvider
from towpath_decider.adapters.sdk_provider import SdkProvider
from towpath_decider.settings import DeciderSettings
from towpath_fabric.telemetry.logs import Logger


def keyed_providers(settings: DeciderSettings, log: Logger | None) -> dict[str, GeminiProvider | SdkProvider]:
    """Return the providers that are asked over the network, by their names; nothing is opened before a question."""
    tools = settings.native_tools
    gemini = GeminiProvider(api_key=settings.gemini_api_key, base_url=settings.gemini_base_url, log=log)
    openai = OpenAiProvider(
        api_key=settings.openai_api_key, base_url=settings.openai_base_url, log=log, tool_switches=tools
    )
    claude = ClaudeProvider(
        api_key=settings.anthropic_api_key, base_url=settings.anthropic_base_url, log=log, tool_switches=tools
    )
    local = OpenAiProvider(
        api_key=settings.local_api_key, base_url=settings.local_url, local=True, log=log, tool_switches=tools
    )
    return {"gemini": gemini, "google": gemini, "openai": openai, "anthropic": claude, "local": local}
