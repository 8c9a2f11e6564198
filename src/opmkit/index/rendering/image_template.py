"""Templates of image names, such as ``quay.io/me/{{.Package}}:v{{.Version}}``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from opmkit.bundle.model import Bundle

_ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_FIELDS = ("Package", "Name", "Version")
_HINT = f"use the fields {', '.join(f'{{{{.{name}}}}}' for name in _FIELDS)}"


@dataclass(frozen=True, slots=True)
class ImageTemplate:
    """A template in a subset of Go's syntax: texts, and the names of the fields between them."""

    texts: tuple[str, ...]
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, template: str) -> ImageTemplate:
        """Parse a template; raise CatalogError if it is invalid."""
        *texts, last = _ACTION.split(template)
        if "{{" in last:
            raise CatalogError(f"invalid image template {template!r}: {{{{ without }}}}", hint=_HINT)
        return cls((*texts[::2], last), tuple(_field(action, template) for action in texts[1::2]))

    def image(self, bundle: Bundle) -> str:
        """Return the image name of a bundle."""
        values = {"Package": bundle.package, "Name": bundle.name, "Version": bundle.version}
        filled = (values[field] + text for field, text in zip(self.fields, self.texts[1:], strict=True))
        return self.texts[0] + "".join(filled)


def _field(content: str, template: str) -> str:
    action = content.strip()
    name = action.removeprefix(".")
    if action != f".{name}" or name not in _FIELDS:
        raise CatalogError(f"invalid image template {template!r}: unknown field {{{{{content}}}}}", hint=_HINT)
    return name
