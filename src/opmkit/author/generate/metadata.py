"""Annotations and Dockerfile of a bundle in the format of operator-sdk."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit._version import __version__
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.generate import yaml_scalar
from opmkit.bundle.labels import (
    CHANNELS,
    DEFAULT_CHANNEL,
    MANIFESTS,
    MEDIA_TYPE,
    METADATA,
    PACKAGE,
    TEST_CONFIG,
    TEST_MEDIA_TYPE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCORECARD_FILE = "tests/scorecard/config.yaml"
BUILDER = f"opmkit-v{__version__}"
_METRICS = "operators.operatorframework.io.metrics"
_TEST_LABELS = {
    TEST_MEDIA_TYPE: "scorecard+v1",
    TEST_CONFIG: "tests/scorecard/",
}
_PLAIN_LABEL = re.compile(r"[A-Za-z0-9_.+/,:@=-]+")
_SPECIAL = re.compile(r'(["\\$])')


class BundleLabels(Struct, frozen=True):
    """The annotations of a bundle, which are also the labels of its image, except for those of ``others``.

    Attributes:
        package: Name of the package.
        channels: Comma-separated list of channels.
        default_channel: Default channel, or "" if there is none.
        layout: Plugins of the operator project, or "" for no annotations about the project.
        has_scorecard: Whether the bundle contains a configuration of operator-sdk's scorecard.
        others: Further annotations, which are no labels: Makefiles append labels to the Dockerfile on each run.
    """

    package: str
    channels: str
    default_channel: str = ""
    layout: str = ""
    has_scorecard: bool = False
    others: Mapping[str, str] | None = None

    def core(self) -> dict[str, str]:
        """Return the annotations of all bundles, and those about the project."""
        labels = {
            MEDIA_TYPE: "registry+v1",
            MANIFESTS: "manifests/",
            METADATA: "metadata/",
            PACKAGE: self.package,
            CHANNELS: self.channels,
            **({DEFAULT_CHANNEL: self.default_channel} if self.default_channel else {}),
        }
        if self.layout:
            labels |= {
                f"{_METRICS}.builder": BUILDER,
                f"{_METRICS}.mediatype.v1": "metrics+v1",
                f"{_METRICS}.project_layout": self.layout,
            }
        return labels

    def test(self) -> dict[str, str]:
        """Return the annotations about tests."""
        return dict(_TEST_LABELS) if self.has_scorecard else {}

    def all(self) -> dict[str, str]:
        """Return all annotations.

        Raises:
            InvalidBundle: One has control characters.
        """
        labels = {**self.core(), **self.test(), **(self.others or {})}
        for key, value in labels.items():
            if not f"{key}{value}".isprintable():
                raise InvalidBundle(f"invalid annotation {key!r}: control characters", hint="write it on one line")
        return labels


def is_generated(key: str) -> bool:
    """Return whether an annotation is generated, so that an existing value is not retained."""
    core = (MEDIA_TYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS, DEFAULT_CHANNEL)
    return key in core or key in _TEST_LABELS or key.startswith(f"{_METRICS}.")


def object_annotations(layout: str) -> dict[str, str]:
    """Return the annotations of the CSV about the project."""
    if not layout:
        return {}
    prefix = "operators.operatorframework.io"
    return {f"{prefix}/builder": BUILDER, f"{prefix}/project_layout": layout}


def annotations_yaml(labels: BundleLabels) -> str:
    """Return the text of ``annotations.yaml``."""
    sections = (
        ("Core bundle annotations", labels.core()),
        ("Annotations for testing", labels.test()),
        ("Other annotations", labels.others or {}),
    )
    texts = [
        "".join([f"  # {title}.\n", *(f"  {key}: {yaml_scalar(value)}\n" for key, value in section.items())])
        for title, section in sections
        if section
    ]
    return "annotations:\n" + "\n".join(texts)


def dockerfile(labels: BundleLabels, directory: str, base_image: str = "scratch") -> str:
    """Return the text of the Dockerfile for a bundle in a directory relative to the build context."""
    tests = labels.test()
    sections = [
        [f"FROM {base_image}"],
        ["# Core bundle labels.", *_label_lines(labels.core())],
        ["# Labels for testing.", *_label_lines(tests)] if tests else [],
        [
            "# Copy files to locations specified by labels.",
            *_copy_lines(directory, ("manifests", "metadata", *(["tests/scorecard"] if tests else []))),
        ],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _label_lines(labels: Mapping[str, str]) -> list[str]:
    return [f"LABEL {_quoted(key)}={_quoted(value)}" for key, value in labels.items()]


def _copy_lines(directory: str, names: Iterable[str]) -> list[str]:
    lines = []
    for name in names:
        source = f"{directory}/{name}"
        plain = _PLAIN_LABEL.fullmatch(source)
        lines.append(f"COPY {source} /{name}/" if plain else f"COPY {json.dumps([source, f'/{name}/'])}")
    return lines


def _quoted(text: str) -> str:
    return text if _PLAIN_LABEL.fullmatch(text) else f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
