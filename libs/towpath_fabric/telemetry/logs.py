"""Structured logs: JSON lines in containers, readable lines on a terminal.

A log line carries ids (run_id, seq, execution_id), never payloads, prompts or secrets.
"""

import logging
import sys

import structlog

from towpath_fabric.settings import Settings

Logger = structlog.stdlib.BoundLogger


def configure_logging(role: str, settings: Settings) -> Logger:
    """Set up logging for this process and return the logger of *role*."""
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
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
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for noisy in ("nats", "httpx2", "httpcore2", "uvicorn.access", "openai", "anthropic", "google_genai"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logger: Logger = structlog.get_logger(role).bind(role=role, instance=settings.instance)
    return logger
