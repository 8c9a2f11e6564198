"""Check that code, tests and docs use plain technical English: no banned words, docstrings in the imperative.

CONTRIBUTING.md gives the rules. Words inside ``backticks`` and quoted identifiers of other projects are not checked.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
WORDS = {
    r"told|tells": "reports, prints, returns",
    r"kept": "cached, stored, retained",
    r"judge[ds]?|judging|verdicts?": "validate, check, result",
    r"anew|afresh": "again",
    r"beside": "next to, in addition to",
    r"of (?:its|their|your|our) own": "its own",
    r"ill will": "malicious",
    r"(?<!if there )(?:is|are) (?-i:none)": "not found, does not exist",
    r"(?<!there )is no(?! longer| more| less| later| need)": "is not a valid ...",
    r"bears?|warrant(?:s|ed)?": "contains, guarantees",
    r"remed(?:y|ies)|cautions?": "hint, warnings",
    r"in one go": "in one transaction, in a single pass",
    r"hardly meant": "probably unintended",
    r"comes? to be|came to be": "is created, is written",
    r"put(?:s)? to use|misspelt|for to|lest|whence|thereof|hitherto": "plain modern English",
    r"sound (?:catalog|bundle|index|image|database)s?": "valid ...",
}
BANNED = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), advice) for pattern, advice in WORDS.items()]
CODE = re.compile(r"```.*?```|``.*?``|`[^`]*`|<[^>]*>|https?://\S+", re.DOTALL)
INDIRECT = re.compile(r"(?:What|How|That|Where|Whether|Who|Whose|When)\b")
CONTRACTION = re.compile(r"\b\w+n't\b", re.IGNORECASE)
GO_TEXTS = ("couldn't find expected key",)
"""Messages that equal those of Go opm."""
SKIPPED = ("fixtures/", "scripts/check_language.py", "LICENSE")


def main() -> int:
    """Print each finding as ``path:line: text`` and return the exit code."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = sys.argv[1:]
    findings = 0
    for name in listed.splitlines():
        if name.startswith(SKIPPED) or (wanted and not name.startswith(tuple(wanted))) or not (ROOT / name).is_file():
            continue
        if name.endswith(".py"):
            found = check_python(name, (ROOT / name).read_text())
        elif name.endswith((".md", "justfile")) or name.startswith("scripts/"):
            found = check_text((ROOT / name).read_text(), 1)
        else:
            continue
        for line, problem in sorted(found):
            print(f"{name}:{line}: {problem}")
            findings += 1
    return 1 if findings else 0


def check_text(text: str, first: int) -> Iterator[tuple[int, str]]:
    """Yield the banned words of a text that begins on line ``first``."""
    visible = CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for pattern, advice in BANNED:
        for match in pattern.finditer(visible):
            yield first + visible.count("\n", 0, match.start()), f"{match[0]!r}: write {advice}"


def check_python(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield the findings in comments, docstrings and messages of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from check_text(token.string, token.start[0])
    tree = ast.parse(source)
    docstrings = set(_docstrings(tree))
    for node in docstrings:
        yield from check_text(node.value, node.lineno)
    yield from _indirect_docstrings(tree)
    if not name.startswith("tests/"):
        messages = (node for node in _texts(tree) if node not in docstrings and " " in node.value)
        for node in messages:
            yield from check_text(node.value, node.lineno)
            if name.startswith("src/") and (found := CONTRACTION.search(_without_go_texts(node.value))):
                yield node.lineno, f"{found[0]!r} in a message: write it out"


def _texts(tree: ast.AST) -> Iterator[ast.Constant]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings that are statements: docstrings of definitions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def _without_go_texts(message: str) -> str:
    for text in GO_TEXTS:
        message = message.replace(text, "")
    return message


def _is_property(node: ast.AST) -> bool:
    names = {getattr(decorator, "id", "") for decorator in getattr(node, "decorator_list", ())}
    return bool(names & {"property", "cached_property"})


def _indirect_docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text and INDIRECT.match(text) and not (text.startswith("Whether") and _is_property(node)):
                line = getattr(node, "lineno", 1)
                yield line, f"the docstring begins with {text.split()[0]!r}: begin with a verb or a noun phrase"


if __name__ == "__main__":
    sys.exit(main())
