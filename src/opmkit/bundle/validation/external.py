"""External validators: programs that validate a bundle directory, as operator-sdk runs them."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.errors import BundleError
from opmkit.bundle.finding import Finding, Severity
from opmkit.core.search_paths import find_program
from opmkit.documents.lenient import items, mapping, scalar_text, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RULE = "EXTERNAL"
_SEVERITIES = {"errors": Severity.ERROR, "warnings": Severity.WARNING}
_KEYS = frozenset({"name", *_SEVERITIES})
_ENTRY_KEYS = frozenset({"type", "level", "field", "badvalue", "detail"})
_HINT = "print one JSON object with Name, Errors and Warnings, and exit with 0"


class ExternalValidatorError(BundleError):
    """An external validator could not be run, failed, or printed an invalid result."""


def run_external_validators(programs: Iterable[str], directory: Path) -> tuple[Finding, ...]:
    """Run programs with a bundle directory as their only argument, and return their findings.

    A program prints a JSON object with the lists ``Errors`` and ``Warnings``, whose entries have ``Type``, ``Field``,
    ``BadValue`` and ``Detail``. Its stderr is inherited.

    Raises:
        ExternalValidatorError: A program cannot be run, fails, or prints something else.
    """
    return tuple(finding for program in programs for finding in _run(program, directory))


@contextmanager
def bundle_directory(location: object, files: Mapping[str, bytes]) -> Iterator[Path]:
    """Yield the directory of a bundle; ``files`` of an image are written to a temporary one."""
    if isinstance(location, Path):
        yield location
        return
    import tempfile  # slow to import, as subprocess: few commands run programs

    with tempfile.TemporaryDirectory(prefix="opm-bundle-") as name:
        for path, content in files.items():
            target = Path(name, path)
            if target.resolve().is_relative_to(Path(name).resolve()):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        yield Path(name)


def _run(program: str, directory: Path) -> Iterator[Finding]:
    import subprocess

    path = find_program(program)
    if path is None:
        message = f"external validator {program}: not found in PATH"
        raise ExternalValidatorError(message, hint="pass the path of an executable file")
    try:
        done = subprocess.run([path, str(directory.absolute())], stdout=subprocess.PIPE, check=False)
    except OSError as error:
        message = f"external validator {program}: cannot be run: {error.strerror or error}"
        raise ExternalValidatorError(message, hint="pass the path of an executable file") from error
    if done.returncode:
        message = f"external validator {program}: exited with code {done.returncode}"
        raise ExternalValidatorError(message, hint="run it alone with the bundle directory as its argument")
    try:
        result = _object(orjson.loads(done.stdout), _KEYS)
    except ValueError as error:
        raise ExternalValidatorError(f"external validator {program}: invalid result: {error}", hint=_HINT) from error
    for key, severity in _SEVERITIES.items():
        for entry in items(result.get(key)):
            try:
                yield _finding(_object(entry, _ENTRY_KEYS), Path(program).name, severity)
            except ValueError as error:
                message = f"external validator {program}: invalid entry in {key}: {error}"
                raise ExternalValidatorError(message, hint=_HINT) from error


def _object(value: Any, keys: frozenset[str]) -> dict[str, Any]:
    """Return an object with its keys in lower case, as Go compares them; raise ValueError for unknown keys."""
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    unknown = [key for key in value if key.lower() not in keys]
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}")
    return {key.lower(): member for key, member in mapping(value).items()}


def _finding(entry: Mapping[str, Any], name: str, severity: Severity) -> Finding:
    field, value = text(entry.get("field")), scalar_text(entry.get("badvalue")) or ""
    detail = text(entry.get("detail")) or text(entry.get("type")) or "no message"
    message = f"{field}: {detail}" if field else detail
    return Finding(message, subject=field or value, rule=RULE, validator=name, severity=severity)
