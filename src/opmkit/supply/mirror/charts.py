"""Images of Helm charts: the program ``helm`` renders a chart, and JSONPath expressions find the images.

The known paths are those of oc-mirror, https://github.com/openshift/oc-mirror. Unlike there, hooks are rendered as
well, since charts cannot be installed without their images.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.programs import ProgramLimits, run_isolated
from opmkit.core.scratch import ScratchDirectory
from opmkit.core.search_paths import find_program
from opmkit.documents.document_stream import read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.json_path import JsonPath
from opmkit.imagetools.engines.engine import single_line
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.index.errors import CatalogError
from opmkit.supply.mirror.model import image_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

    from opmkit.documents.json_value import JsonValue
    from opmkit.supply.mirror.model import MirrorRequest

LIMITS = ProgramLimits(timeout=120, max_output=32 << 20)
"""Limits of rendering one chart."""
_IMAGE_PATHS = tuple(
    JsonPath.parse(f"{{{spec}.{containers}[*].image}}")
    for spec in (".spec.template.spec", ".spec")
    for containers in ("initContainers", "containers")
)
_FLAGS = ("--include-crds", "--skip-tests", "--skip-schema-validation")
"""Flags of helm. A schema may refer to others in the network."""
_DIRECTORIES = (
    *("HOME", "TMPDIR", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HELM_PLUGINS"),
    *("HELM_REPOSITORY_CACHE", "HELM_CONTENT_CACHE"),
)
_FILES = ("HELM_REPOSITORY_CONFIG", "HELM_REGISTRY_CONFIG", "KUBECONFIG")
_DEBUG_HINT = "Use --debug flag to render out invalid YAML"
_OTHERWISE = "list the images of the chart under additionalImages"


class HelmError(CatalogError):
    """A Helm chart of an image set cannot be rendered; the message has the file and line of the chart there."""


class ImageSetChart(Struct, frozen=True):
    """A Helm chart of an image set.

    Attributes:
        name: Its name, for messages.
        path: Its directory or archive.
        image_paths: Where its objects have images, in addition to the containers of pods and workloads.
        location: File and line.
    """

    name: str
    path: str
    image_paths: tuple[JsonPath, ...]
    location: str

    def __str__(self) -> str:
        """Return the name with the location."""
        return f"helm chart {self.name} of {self.location}"


class ChartImages(Struct, frozen=True):
    """The images of charts, and warnings about those that are invalid."""

    requests: tuple[MirrorRequest, ...] = ()
    warnings: tuple[str, ...] = ()


def read_charts(charts: Sequence[ImageSetChart], limits: ProgramLimits = LIMITS) -> ChartImages:
    """Render charts with their default values, and return their images.

    Raises:
        HelmError: A chart does not exist, helm is not installed or fails, or its output is invalid.
    """
    for chart in charts:
        _check_path(chart)
    requests: list[MirrorRequest] = []
    warnings: list[str] = []
    for chart in charts:
        documents = _parse(chart, render_chart(chart, limits))
        references, invalid = _find_references(chart, documents)
        requests += [request for found in references for request in image_requests(found, (str(chart),))]
        warnings += [f"{chart}: {text!r} is not a valid image: not mirrored" for text in invalid]
    return ChartImages(tuple(requests), tuple(warnings))


def _check_path(chart: ImageSetChart) -> None:
    path = Path(chart.path)
    if not path.is_dir() and not path.is_file():
        problem = "is neither a directory nor a file" if path.exists() else "does not exist"
        hint = "set path to a chart directory or .tgz file; it is relative to the working directory"
        _fail(chart, f"{chart.path!r} {problem}", hint)


def render_chart(chart: ImageSetChart, limits: ProgramLimits) -> bytes:
    """Return the documents of a chart, rendered by helm without access to clusters, repositories and configuration."""
    program = find_program("helm")
    if program is None:
        _fail(chart, "helm is not installed", f"install helm 3.16 or newer, or {_OTHERWISE}")
    path = str(Path(chart.path).absolute())  # neither a flag nor the name of a chart in a repository is absolute
    command = [program, "template", *_FLAGS, path]
    try:
        with ScratchDirectory("opm-helm-") as scratch:
            environ = {"PATH": os.environ.get("PATH", ""), **dict.fromkeys(_DIRECTORIES, scratch)}
            environ |= {variable: f"{scratch}/{variable.lower()}" for variable in _FILES}
            done = run_isolated(command, limits, scratch, environ)
    except OSError as error:
        _fail(chart, f"helm: {error.strerror or error}", f"simplify the chart, or {_OTHERWISE}", error)
    if done.status:
        text = done.stderr.decode(errors="replace").replace(_DEBUG_HINT, "").strip().removeprefix("Error: ")
        hint = f"make `helm template` render the chart with the values in its values.yaml, or {_OTHERWISE}"
        _fail(chart, f"helm: {single_line(text)}", hint)
    return done.stdout


def _parse(chart: ImageSetChart, raw: bytes) -> Iterator[JsonValue]:
    for document in read_documents(raw):
        if isinstance(document, InvalidDocument):
            problem = single_line(document.located("output of helm"))
            _fail(chart, problem, "correct the template that `helm template` renders as invalid YAML")
        yield document.value


def _find_references(
    chart: ImageSetChart, documents: Iterator[JsonValue]
) -> tuple[dict[Reference, None], dict[str, None]]:
    """Return the images in documents, and the invalid ones among the images of containers.

    Chart-specific paths may lead to other values, such as environment variables: images have a tag or digest there.
    """
    found: dict[Reference, None] = {}
    invalid: dict[str, None] = {}
    for document in documents:
        for path in (*_IMAGE_PATHS, *chart.image_paths):
            for text in path.format(document).split():
                try:
                    reference = Reference.parse(text)
                except InvalidReference:
                    if path in _IMAGE_PATHS:
                        invalid[text[:80]] = None
                    continue
                if path in _IMAGE_PATHS or reference.tag or reference.digest:
                    found[reference] = None
    return found, invalid


def _fail(chart: ImageSetChart, problem: str, hint: str, cause: Exception | None = None) -> NoReturn:
    raise HelmError(f"{chart.location}: helm chart {chart.name}: {problem}", hint=hint) from cause
