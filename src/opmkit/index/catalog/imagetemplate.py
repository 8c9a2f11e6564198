"""Names of images that are not there yet, from a template that a bundle fills in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from opmkit.bundle.model import Bundle

_ACTION = re.compile(r"(?:\{\{|(?P<before>\s*)\{\{-\s)(?P<content>.*?)(?:\s-\}\}(?P<after>\s*)|\}\})", re.DOTALL)
_FIELDS = ("Package", "Name", "Version")
_COMMENT = re.compile(r"/\*.*\*/", re.DOTALL)
_ADVICE = f"Of Go's templates there are the fields {', '.join(f'{{{{.{name}}}}}' for name in _FIELDS)}, and comments."


@dataclass(frozen=True, slots=True)
class ImageTemplate:
    """Texts and, between them, the names of fields: of the subset of Go's templates that names of images need."""

    texts: tuple[str, ...]
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, template: str) -> ImageTemplate:
        """Read a template, such as ``quay.io/me/{{.Package}}:v{{.Version}}``; raises CatalogError."""
        texts, fields, start = [""], [], 0
        for action in _ACTION.finditer(template):
            texts[-1] += _plain(template[start : action.start()], template)
            start = action.end()
            content = action["content"].strip()
            if not _COMMENT.fullmatch(content):
                fields.append(_field(content, template))
                texts.append("")
        texts[-1] += _plain(template[start:], template)
        return cls(tuple(texts), tuple(fields))

    def image(self, bundle: Bundle) -> str:
        """The name for the image of a bundle."""
        values = {"Package": bundle.package, "Name": bundle.name, "Version": bundle.version}
        filled = (values[field] + text for field, text in zip(self.fields, self.texts[1:], strict=True))
        return self.texts[0] + "".join(filled)


def _plain(text: str, template: str) -> str:
    if "{{" in text:
        raise CatalogError(f"the image template {template!r} has a {{{{ without }}}}", advice=_ADVICE)
    return text


def _field(content: str, template: str) -> str:
    name = content.removeprefix(".")
    if name not in _FIELDS or name == content:
        raise CatalogError(f"the image template {template!r} has {{{{{content}}}}}, which is no field", advice=_ADVICE)
    return name
