"""Names of images that are not there yet, from a template that a bundle fills in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from opmkit.bundle.model import Bundle

_ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_FIELDS = ("Package", "Name", "Version")
_ADVICE = f"Of Go's templates there are the fields {', '.join(f'{{{{.{name}}}}}' for name in _FIELDS)}."


@dataclass(frozen=True, slots=True)
class ImageTemplate:
    """Texts and, between them, the names of fields: of the subset of Go's templates that names of images need."""

    texts: tuple[str, ...]
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, template: str) -> ImageTemplate:
        """Read a template, such as ``quay.io/me/{{.Package}}:v{{.Version}}``; raises CatalogError."""
        *texts, last = _ACTION.split(template)
        if "{{" in last:
            raise CatalogError(f"the image template {template!r} has a {{{{ without }}}}", advice=_ADVICE)
        return cls((*texts[::2], last), tuple(_field(action, template) for action in texts[1::2]))

    def image(self, bundle: Bundle) -> str:
        """The name for the image of a bundle."""
        values = {"Package": bundle.package, "Name": bundle.name, "Version": bundle.version}
        filled = (values[field] + text for field, text in zip(self.fields, self.texts[1:], strict=True))
        return self.texts[0] + "".join(filled)


def _field(content: str, template: str) -> str:
    action = content.strip()
    name = action.removeprefix(".")
    if action != f".{name}" or name not in _FIELDS:
        raise CatalogError(f"the image template {template!r} has {{{{{content}}}}}, which is no field", advice=_ADVICE)
    return name
