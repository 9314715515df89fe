"""Structured logs: JSON lines in containers, files and pipes, readable lines on a terminal.

A log line carries ids (run_id, seq, execution_id), never payloads, prompts or secrets.
"""

import contextlib
import logging
import re
import sys
from collections.abc import Iterator

from towpath_contracts.text import HIDDEN_SIGNS
from towpath_fabric.settings import Settings

_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{HIDDEN_SIGNS}]")
"""What a terminal would obey, or not show; a line break of a stack stays."""


@contextlib.contextmanager
def _as_if_missing(package: str) -> Iterator[None]:
    """Let *package* look as if it were not installed, for importers that can do without it."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment] # documented: importing it raises ModuleNotFoundError
    try:
        yield
    finally:
        del sys.modules[package]


# structlog takes rich, and with it pygments, wherever the command line has installed it: a tenth of what a service
# imports, for colourful tracebacks that no service prints.
with _as_if_missing("rich"):
    import structlog

Logger = structlog.stdlib.BoundLogger


def get_logger(role: str) -> Logger:
    """Return a logger of *role*, before logging is configured or after it."""
    logger: Logger = structlog.get_logger(role)
    return logger


def _rendering(settings: Settings) -> list[structlog.types.Processor]:
    """Return what makes a line of a record."""
    is_terminal = sys.stderr.isatty()
    if settings.log_format == "json" or (settings.log_format == "auto" and not is_terminal):
        return [structlog.processors.JSONRenderer()]
    return [_without_unsafe_signs, structlog.dev.ConsoleRenderer(colors=is_terminal)]


def _without_unsafe_signs(
    _logger: object, _method: str, record: structlog.types.EventDict
) -> structlog.types.EventDict:
    """Take out what a terminal would obey: values come from tools and callers too."""
    return {name: _UNSAFE.sub("", value) if isinstance(value, str) else value for name, value in record.items()}


def configure_logging(role: str, settings: Settings) -> Logger:
    """Set up logging for this process and return the logger of *role*."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(settings)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for noisy in ("nats", "httpx2", "httpcore2", "uvicorn.access", "openai", "anthropic", "google_genai"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # Its pool tells of each connection that it can't open, with the stack; `towpath_fabric.outages` tells of outages.
    logging.getLogger("asyncpg").setLevel(logging.ERROR)
    return get_logger(role).bind(role=role, instance=settings.instance)
