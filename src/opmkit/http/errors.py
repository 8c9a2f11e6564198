"""Errors of HTTP connections and responses."""

from __future__ import annotations


class InvalidURL(ValueError):
    """A URL that no request can be sent to."""


class Unreachable(Exception):
    """No connection to a server.

    Attributes:
        error: The error of the operating system.
    """

    def __init__(self, error: OSError) -> None:
        """Create an error; ``httpcore2`` would remove a ``__cause__``."""
        super().__init__(str(error))
        self.error = error


class ProxyError(Exception):
    """A proxy that cannot be used, does not respond, or refuses to connect to a server.

    Attributes:
        proxy: The URL of the proxy without login, and the setting that names it.
        setting: This setting.
        status: The status code with which it refuses, or 0.
        error: What failed, None if the setting is invalid or the proxy refuses.
    """

    def __init__(
        self, proxy: str, setting: str, message: str = "", *, status: int = 0, error: Exception | None = None
    ) -> None:
        """Create an error; ``message`` says what is invalid."""
        super().__init__(message)
        self.proxy = proxy
        self.setting = setting
        self.status = status
        self.error = error.error if isinstance(error, Unreachable) else error


class HeaderLimitExceeded(Exception):
    """A response header that is too large, or that too many informational responses precede."""


class InvalidHeader(Exception):
    """A response header that violates HTTP."""


class IncompleteBody(Exception):
    """A response whose body ended early."""


class InvalidBody(Exception):
    """A response whose body continues with an invalid encoding."""


CONNECTION_ERRORS = (
    OSError,
    Unreachable,
    ProxyError,
    HeaderLimitExceeded,
    InvalidHeader,
    IncompleteBody,
    InvalidBody,
)
"""The errors of a connection or response."""
