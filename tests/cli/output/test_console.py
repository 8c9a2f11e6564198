"""Output to stdout and stderr."""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import TYPE_CHECKING

from rich.progress import Progress

from opmkit.cli.output.console import print_json, print_line, print_table
from opmkit.cli.output.errors import print_error, print_traceback, print_warning
from opmkit.cli.output.logs import configure_logs
from opmkit.cli.output.server_logs import format_record
from opmkit.cli.progress.bars import AmountColumn, ProgressBars
from opmkit.cli.progress.sinks import ProgressItem, ProgressKind
from opmkit.core.errors import OpmkitError
from opmkit.core.escape import escape_controls
from opmkit.index.errors import CatalogError, MultipleErrors

if TYPE_CHECKING:
    import pytest

CONTROLS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F)]))
CONTROLS += "\u2066\u2067\u2068\u2069\ufeff\udc80"


def is_harmless(text: str) -> bool:
    return all(line.isprintable() and not line.startswith("Error: forged") for line in text.split("\n"))


def test_control_characters_are_escaped_and_other_text_is_unchanged() -> None:
    assert escape_controls("\x1b[2J\n\x9b\u202e\udc80") == r"\x1b[2J\n\x9b\u202e\udc80"
    assert escape_controls(CONTROLS).isprintable()
    assert escape_controls("Größe 日本 C:\\dir 🚀") == "Größe 日本 C:\\dir 🚀"


def test_everything_printed_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = f"{CONTROLS}\nError: forged"
    configure_logs(debug=True)
    logging.getLogger("opmkit.test").debug("redirected to %s", hostile)
    logging.getLogger("opmkit.test").warning("%s", hostile)
    print_line(hostile)
    print_table(("A", "B"), [(hostile, hostile)])
    print_warning(hostile, hostile)
    print_error(OpmkitError(hostile, hint=hostile, details=[hostile]))
    print_error(ValueError(hostile))
    print_line(format_record("info", hostile, {"error": hostile}))
    try:
        raise OpmkitError(hostile) from ValueError(hostile)
    except OpmkitError as error:
        print_traceback(error)

    printed = capsys.readouterr()

    assert is_harmless(printed.out)
    assert is_harmless(printed.err)
    assert "redirected to \\x00" in printed.err


def test_errors_may_have_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    errors = [CatalogError("a\nb"), MultipleErrors([CatalogError("c"), CatalogError("d", hint="try")])]

    print_error(MultipleErrors(errors))

    assert capsys.readouterr().err == "Error: a\\nb\nc\nd\n  hint: try\n"


def test_json_escapes_controls_without_changing_values(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    value = {"name": CONTROLS.replace("\udc80", "") + "ä\u2030"}

    print_json(value)

    printed = capfdbinary.readouterr().out.decode()
    assert json.loads(printed) == value
    assert is_harmless(printed.replace("\ufeff", ""))
    assert "ä\u2030" in printed


def test_labels_of_progress_bars_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stderr", output)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with ProgressBars() as bars:
        item = ProgressItem(ProgressKind.TASK, "[link=http://evil]\x07\u202ename", 1)
        bars.begin(item)
        item.done = 1
        bars.update(item)
        bars._bars.refresh()

    assert "[link=http://evil]" in output.getvalue()
    assert "\u202e" not in output.getvalue()
    assert "\x07" not in output.getvalue()


def test_progress_in_bytes_has_a_rate() -> None:
    seconds = iter(range(100))
    progress = Progress(get_time=lambda: float(next(seconds)), disable=True)
    task = progress.add_task("Copying", total=5000, unit="bytes")
    for _ in range(3):
        progress.update(task, advance=1000)
    assert AmountColumn().render(progress.tasks[0]).plain == "3.0 kB of 5.0 kB, 1.0 kB/s"
    progress.update(task, unit="images")
    assert AmountColumn().render(progress.tasks[0]).plain == "3000 of 5000 images"
