"""Sample templates to edit, and helpers that edit their text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.core.errors import OpmkitError
from opmkit.index.templates.edit.apply import PromoteOptions, TemplateAddOptions, add, deprecate, promote
from opmkit.index.templates.edit.edges import EdgeOptions
from opmkit.index.templates.edit.template import EditableTemplate, TemplateBundle, unified_diff
from tests.index.templates.samples import bundle, render_images

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.templates.edit.write import TemplateEdit

BASIC = """\
---
# the template of reef
schema: olm.template.basic
entries:
  - schema: olm.package   # one package
    name: reef
    defaultChannel: stable

  # for users
  - schema: olm.channel
    name: stable
    package: reef
    entries:
      - name: "reef.v1.0.0"   # first

  - schema: olm.channel
    name: candidate
    package: reef
    entries:
      - name: reef.v1.0.0
      # a fix
      - name: reef.v1.1.0
        replaces: reef.v1.0.0
      - {name: reef.v1.2.0, replaces: reef.v1.1.0, skipRange: '>=1.0.0 <1.2.0'}

  # bundles
  - image: quay.io/example/reef:1.0.0
    schema: olm.bundle
  - image: quay.io/example/reef:1.1.0
    schema: olm.bundle
  - image: quay.io/example/reef:1.2.0
    schema: olm.bundle
# end
"""


def no_render(images: Sequence[str], /) -> dict[str, BundleBlob]:
    raise AssertionError(f"{images} are read")


def added(
    text: str,
    version: str,
    *channels: str,
    package: str = "reef",
    render: Callable[[Sequence[str]], dict[str, BundleBlob]] = no_render,
    create: bool = False,
    base: str = "",
    overwrite: bool = False,
    default: str = "",
    **edges: Any,
) -> TemplateEdit:
    """Return the result of adding a version to channels."""
    options = TemplateAddOptions(channels, EdgeOptions(**edges), create, base, overwrite, default)
    return add(parse(text), TemplateBundle.from_blob(bundle(version, package)), options, render)


def promoted(
    text: str,
    name: str,
    *targets: str,
    source: str = "",
    render: Callable[[Sequence[str]], dict[str, BundleBlob]] = no_render,
    create: bool = False,
    default: str = "",
    **edges: Any,
) -> TemplateEdit:
    """Return the result of promoting a bundle to channels."""
    return promote(parse(text), name, PromoteOptions(source, targets, EdgeOptions(**edges), create, default), render)


def deprecated(text: str, schema: str, name: str, message: str = "Old.") -> str:
    """Return a text with a deprecation."""
    return result(deprecate(parse(text), [(schema, name)], message))


def parse(text: str, name: str = "t.yaml") -> EditableTemplate:
    return EditableTemplate.parse(text.encode(), name)


def result(edit: TemplateEdit) -> str:
    return edit.template.raw.decode()


def difference(before: str, edit: TemplateEdit) -> list[str]:
    """Return the removed and added lines."""
    lines = unified_diff("", before.encode(), edit.template.raw).splitlines()[2:]
    return [line for line in lines if line[:1] in "+-"]


def failure(edit: Callable[[], object]) -> str:
    """Return the message of the error with which an edit fails, with its hint."""
    with pytest.raises(OpmkitError) as error:
        edit()
    assert error.value.hint
    return f"{error.value.message}\n{error.value.hint}"


def render_all(images: Sequence[str], /) -> dict[str, BundleBlob]:
    return render_images(images)
