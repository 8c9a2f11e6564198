"""Flags that several commands share, kept as frozen values.

A command asks for a group of flags by a parameter of the group's type; ``takes_groups`` unfolds it into the flags for
typer and folds them again for the call.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

if TYPE_CHECKING:
    from opmkit.imagetools.image_format import ImageFormat
    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.tools.engine import EngineTool
    from opmkit.imagetools.tools.registry import RegistryTool

T = TypeVar("T")
REGISTRY_PANEL = "Registry access"

GLOBAL_FLAGS = {
    "--skip-tls": False,
    "--skip-tls-verify": False,
    "--use-http": False,
    "--debug": False,
    "--ca-file": True,
    "--cert-dir": True,
    "--authfile": True,
}
"""Flags that may stand anywhere on the command line, and whether each takes a value."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How registries are spoken to."""

    skip_tls: Annotated[bool, typer.Option("--skip-tls", hidden=True)] = False
    skip_tls_verify: Annotated[
        bool,
        typer.Option(
            "--skip-tls-verify",
            help="Accept any TLS certificate, or plain HTTP from registries without TLS.",
            rich_help_panel=REGISTRY_PANEL,
        ),
    ] = False
    use_http: Annotated[
        bool,
        typer.Option("--use-http", help="Speak plain HTTP to every registry.", rich_help_panel=REGISTRY_PANEL),
    ] = False
    ca_file: Annotated[
        Path | None,
        typer.Option(help="PEM file of further certificate authorities to trust.", rich_help_panel=REGISTRY_PANEL),
    ] = None
    cert_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory of certificates in place of those in certs.d: authorities (*.crt), client (*.cert, *.key).",
            rich_help_panel=REGISTRY_PANEL,
        ),
    ] = None
    authfile: Annotated[
        Path | None,
        typer.Option(
            help="Credentials file, in the form of podman's auth.json or docker's config.json.",
            rich_help_panel=REGISTRY_PANEL,
        ),
    ] = None
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False

    def check(self) -> None:
        """Raise ImageToolsError for a credentials file that does not exist, also where no registry is asked."""
        if self.authfile is not None:
            from opmkit.imagetools.auth.keychain import check_authfile

            check_authfile(self.authfile)

    def options(self) -> RegistryOptions:
        """The registry client's options; raises UsageProblem for flags that exclude each other."""
        from opmkit.cli.errors import UsageProblem, print_warning
        from opmkit.imagetools.registry import RegistryOptions

        if self.skip_tls:
            print_warning("--skip-tls is deprecated: it means --use-http")
        if self.use_http and self.skip_tls_verify:
            raise UsageProblem("--use-http and --skip-tls-verify exclude each other")
        if self.ca_file and self.skip_tls_verify:
            raise UsageProblem("--ca-file and --skip-tls-verify exclude each other")
        return RegistryOptions(
            plain_http=self.use_http or self.skip_tls,
            verify_tls=not self.skip_tls_verify,
            ca_file=self.ca_file,
            cert_dir=self.cert_dir,
            authfile=self.authfile,
        )

    def tool(self) -> RegistryTool:
        """The container tool ``none`` over the embedded image store."""
        from opmkit.imagetools.registry import RegistryClient
        from opmkit.imagetools.store import ImageStore
        from opmkit.imagetools.tools.registry import RegistryTool

        return RegistryTool(RegistryClient(self.options()), ImageStore.open())

    def tool_named(self, name: str, form: ImageFormat | None = None) -> RegistryTool | EngineTool:
        """The container tool of that name, which builds images of that format."""
        from opmkit.imagetools.store import ImageStore
        from opmkit.imagetools.tools import open_tool

        return open_tool(name, options=self.options(), store=ImageStore.open(), image_format=form)


def made_once(make: Callable[[], T]) -> Callable[[], T]:
    """Give what ``make`` makes, when it is first asked for; from several threads, too."""
    lock, made = Lock(), functools.cache(make)

    def give() -> T:
        with lock:
            return made()

    return give


def takes_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Unfold every parameter of ``function`` whose type is a dataclass into keyword parameters, one a field."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            parameters += _fields_as_parameters(group)

    @functools.wraps(function)
    def unfolded(**values: Any) -> Any:
        folded = {
            name: group(**{f.name: values.pop(f.name) for f in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        for value in folded.values():
            if isinstance(value, Connection):
                value.check()
        return function(**values, **folded)

    unfolded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    unfolded.__annotations__ = {p.name: p.annotation for p in parameters}
    return unfolded


def _fields_as_parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in dataclasses.fields(group)
    ]
