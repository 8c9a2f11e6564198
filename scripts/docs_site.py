"""Hook of mkdocs: add reference pages generated from the code, and make search work without a web server."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

from opmkit import __version__
from opmkit.bundle.validation.rule_registry import rules
from opmkit.cli.help.content import HelpContent, canonical_path
from opmkit.index.fbc.check.policy import CATALOG_RULES

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs does not
import man_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DIRECTORY = "reference"
OVERVIEW = "commands.md"
OVERVIEW_ROW = re.compile(r"^\| `([a-z -]+)` \|", re.MULTILINE)
TABLE_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
CHECKOUT_LINK = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")
CODE = re.compile(r"`[^`]+`")
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


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the commands in the overview, remove links to files of the checkout, which the site lacks, and backslashes.

    GitHub requires backslashes before bars in the code of tables.
    """
    text = link_commands(markdown) if page.file.src_path == OVERVIEW else markdown
    text = CHECKOUT_LINK.sub(r"\1", text)
    return TABLE_ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def link_commands(overview: str) -> str:
    """Return the overview with links to the pages of commands, which exist in the site alone."""

    def link(row: re.Match[str]) -> str:
        path = f"{DIRECTORY}/{row[1].replace(' ', '-')}.md"
        return f"| [{row[1]}]({path}) |" if path in known else row[0]

    known = reference_pages()
    return OVERVIEW_ROW.sub(link, overview)


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
            pages[f"{DIRECTORY}/{page.name}.md"] = (page.content.path, "\n".join(_command(page.content)))
    return {**pages, f"{DIRECTORY}/rules.md": ("Rules", "\n".join(_rules()))}


def _command(content: HelpContent) -> Iterator[str]:
    """Yield the lines of a command's page."""
    yield from (f"# {content.path}", "", escape(content.summary), "")
    yield from ("```text", content.usage, "```", "")
    for paragraph in re.split(r"\n\s*\n", content.description):
        literal = any(line.startswith(" ") for line in paragraph.split("\n") if line)
        yield from ("```text", paragraph.strip("\n"), "```", "") if literal else (escape(paragraph.strip()), "")
    if content.examples:
        yield from ("## Examples", "", "```sh", *content.examples, "```", "")
    if content.commands:
        yield from ("## Commands", "", "| command | |", "|---|---|")
        for child in content.commands:
            target = canonical_path(f"{content.path} {child.name}").replace(" ", "-")
            yield f"| [{child.name}]({target}.md) | {escape(child.text)} |"
        yield ""
    if content.arguments:
        rows = [(entry.name, man_pages.meaning(entry)) for entry in content.arguments]
        yield from ("## Arguments", "", *_table("argument", rows), "")
    for panel, flags in content.panels.items():
        rows = [(f"{man_pages.names_of(flag)} {flag.value}".strip(), man_pages.meaning(flag)) for flag in flags]
        yield from (f"## {panel}", "", *_table("flag", rows), "")


def _table(heading: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield from (f"| {heading} | meaning |", "|---|---|")
    for name, meaning in rows:
        yield f"| `{name}` | {escape(meaning)} |"


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
