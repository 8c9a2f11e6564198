"""Hook of mkdocs: add reference pages generated from the code, and make search work without a web server."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url
from rich.text import Text

from opmkit import __version__
from opmkit.bundle.validation.rule_registry import rules
from opmkit.index.fbc.check.rules import CATALOG_RULES

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs does not
import man_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DIRECTORY = "reference"
SHIM = "https://unpkg.com/iframe-worker/shim"
"""Script of the offline plugin, of which docs/assets contains a copy."""


def on_config(config: MkDocsConfig) -> None:
    """Add the generated pages to the navigation."""
    (reference,) = (section["Reference"] for section in config.nav or [] if "Reference" in section)
    generated = reference_pages()
    commands = [{title: path} for path, (title, _) in generated.items() if title != "Rules"]
    reference[1:1] = [{"Each command": commands}, {"Rules": f"{DIRECTORY}/rules.md"}]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the generated pages to the site."""
    for path, (_, text) in reference_pages().items():
        files.append(File.generated(config, path, content=text))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load the script for search in local files from the site itself."""
    return output.replace(SHIM, get_relative_url("assets/iframe-worker.js", page.url))


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Do the same in pages without a source, such as 404.html."""
    return output_content.replace(SHIM, "assets/iframe-worker.js")


def reference_pages() -> dict[str, tuple[str, str]]:
    """Return titles and texts of the generated pages, by path."""
    pages = {}
    for page in man_pages.pages(__version__):
        if not man_pages.alias(page):
            pages[f"{DIRECTORY}/{page.name}.md"] = (" ".join(page.path), "\n".join(_command(page)))
    return {**pages, f"{DIRECTORY}/rules.md": ("Rules", "\n".join(_rules()))}


def _command(page: Any) -> Iterator[str]:
    """Yield the lines of a command's page."""
    summary, _, description = Text.from_markup(page.command.help or "").plain.strip().partition("\n")
    examples = man_pages.EXAMPLES.search(description)
    arguments, options = page._parameters("argument"), page._parameters("option")
    words = ["COMMAND"] if page._children else [man_pages.usage(each) for each in arguments]
    yield from (f"# {' '.join(page.path)}", "", escape(summary), "")
    yield from ("```text", " ".join([*page.path, "[OPTIONS]", *words]), "```", "")
    for paragraph in re.split(r"\n\s*\n", description[: examples.start()] if examples else description):
        literal = any(line.startswith(" ") for line in paragraph.split("\n") if line)
        yield from ("```text", paragraph.strip("\n"), "```", "") if literal else (escape(paragraph.strip()), "")
    if examples:
        yield from ("## Examples", "", "```text")
        yield from (line.strip() for line in examples[1].split("\n") if line.strip())
        yield from ("```", "")
    if page._children:
        yield from ("## Commands", "", "| command | |", "|---|---|")
        for name, child in page._children.items():
            text = Text.from_markup(child.help or "").plain.strip().partition("\n")[0]
            yield f"| [{name}]({page.name}-{name}.md) | {escape(text)} |"
        yield ""
    if arguments:
        rows = [(man_pages.usage(each), each.help or "") for each in arguments]
        yield from ("## Arguments", "", *_table("argument", rows), "")
    panels: dict[str, list[Any]] = {}
    for option in sorted(options, key=lambda each: each.rich_help_panel is not None):
        panels.setdefault(option.rich_help_panel or "Options", []).append(option)
    for panel, members in panels.items():
        records = [each.get_help_record(page._context) for each in members]
        yield from (f"## {panel}", "", *_table("flag", records), "")


def _table(heading: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield from (f"| {heading} | meaning |", "|---|---|")
    for name, meaning in rows:
        yield f"| `{name.replace('|', chr(92) + '|')}` | {escape(meaning)} |"


def _rules() -> Iterator[str]:
    """Yield the lines of the page of rules."""
    known: dict[str, Any] = {**rules(), **CATALOG_RULES}
    yield from (
        "# Rules",
        "",
        "The rules of `opm bundle validate` and `opm validate`, by id, as `opm bundle rules` explains them.",
        "",
    )
    for name in sorted(known):
        rule = known[name]
        yield from (f"## {name}", "", f"{escape(rule.summary)} ({rule.severity.value}, validator {rule.validator})", "")
        yield from (escape(rule.explanation), "") if rule.explanation else ()
        yield from (escape(rule.hint), "") if rule.hint else ()
        for label, example in (("Invalid", rule.bad), ("Valid", rule.good)):
            yield from (f"{label}:", "", "```text", example.strip("\n"), "```", "") if example else ()


def escape(text: str) -> str:
    """Return text that markdown prints as it is."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split()))
