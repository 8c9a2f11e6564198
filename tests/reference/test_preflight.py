"""Checks of bundles have the outcomes of openshift-preflight 1.21.

``OPMKIT_REFERENCE_PREFLIGHT`` is the path of a program that runs its checks of operators, as described in
docs/development.md. The bundles are those of the corpus, or ``PACKAGE/VERSION`` directories below
``OPMKIT_BUNDLE_DIRECTORIES``, some of them also with further defects, and the broken bundles in fixtures.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.bundle.validation import preflight
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.openshift import VERSIONS
from opmkit.bundle.validation.preflight import CheckName, CheckOutcome
from opmkit.bundle.validation.profiles import PREFLIGHT, profile_named
from opmkit.bundle.validation.run import run_profile
from tests.kit.broken import broken_bundles, files_below
from tests.kit.bundles import push_image
from tests.kit.corpus import SHARED_BUNDLES
from tests.kit.images import small_image
from tests.kit.validation import view

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kit.registry import Registry

PROGRAM = os.environ.get("OPMKIT_REFERENCE_PREFLIGHT", "")
BUNDLES = Path(os.environ.get("OPMKIT_BUNDLE_DIRECTORIES", SHARED_BUNDLES))
pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="OPMKIT_REFERENCE_PREFLIGHT is not set"),
    pytest.mark.timeout(3600),
]
OUTCOMES = {"PASSED": CheckOutcome.PASSED, "FAILED": CheckOutcome.FAILED, "ERROR": CheckOutcome.ERROR}
UNDECIDED = {CheckOutcome.UNKNOWN}
DIGEST = f"@sha256:{'0' * 64}"


def features(**values: str | None) -> dict[str, str | None]:
    return {name: values.get(name.rpartition("/")[2].replace("-", "_"), "true") for name in preflight.REQUIRED_FEATURES}


def mutants(files: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield changed copies of a bundle with a ClusterServiceVersion in YAML."""
    path = next((path for path in files if "clusterserviceversion" in path), "")
    annotations_path = preflight.ANNOTATIONS_FILE
    for versions in ("v4.14", "=v4.9", "v4.10-v4.12", "v4.14-", "v4.5,v4.6", "v4", "4", "v5.1", "v4.30", "=4", "", "x"):
        changed = yaml.safe_load(files[annotations_path]) or {}
        changed["annotations"] = {**(changed.get("annotations") or {}), VERSIONS: versions}
        yield f"versions-{versions}", {**files, annotations_path: yaml.safe_dump(changed).encode()}
    yield "no-annotations", {name: content for name, content in files.items() if name != annotations_path}
    contents = {"empty": b"", "list": b"[]", "number": b"annotations: 1", "null": b"annotations:", "text": b"x"}
    contents["types"] = b"annotations: {operators.operatorframework.io.bundle.package.v1: [a]}"
    for name, content in contents.items():
        yield f"annotations-{name}", {**files, annotations_path: content}
    yield "version-number", {**files, annotations_path: files[annotations_path] + f"  {VERSIONS}: 4.12\n".encode()}
    yield "other-file", {**files, "manifests/README.md": b"hello", "manifests/a/b.yaml": b"x: 1"}
    if not path:
        return
    for name, edit in _EDITS.items():
        csv = yaml.safe_load(files[path])
        edit(csv)
        yield name, {**files, path: yaml.safe_dump(csv).encode()}
    yield (
        "json-csv",
        {**files, path: b"", "manifests/csv.json": json.dumps(yaml.safe_load(files[path]), default=str).encode()},
    )


def _annotate(values: Mapping[str, str | None]) -> Any:
    def edit(csv: dict[str, Any]) -> None:
        csv["metadata"].setdefault("annotations", {}).update({k: v for k, v in values.items() if v is not None})

    return edit


def _containers(csv: dict[str, Any]) -> list[dict[str, Any]]:
    return csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"]  # type: ignore[no-any-return]


def _related(*images: str, claims: bool = True, env: bool = True) -> Any:
    def edit(csv: dict[str, Any]) -> None:
        csv["spec"]["relatedImages"] = [{"name": str(number), "image": image} for number, image in enumerate(images)]
        _annotate(features(disconnected="true" if claims else "false"))(csv)
        if env:
            _containers(csv)[0].setdefault("env", []).append(
                {"name": "RELATED_IMAGE_X", "value": f"quay.io/a/b{DIGEST}"}
            )

    return edit


def _set_images(image: str) -> Any:
    def edit(csv: dict[str, Any]) -> None:
        csv["spec"].pop("relatedImages", None)
        csv["metadata"]["annotations"] = {"containerImage": image}
        for container in _containers(csv):
            container["image"] = image
            container.pop("env", None)
        del _containers(csv)[1:]

    return edit


def _sccs(*names: str) -> Any:
    def edit(csv: dict[str, Any]) -> None:
        rule = {
            "apiGroups": ["security.openshift.io"],
            "resources": ["securitycontextconstraints"],
            "resourceNames": list(names),
            "verbs": ["use"],
        }
        csv["spec"]["install"]["spec"]["clusterPermissions"] = [{"serviceAccountName": "a", "rules": [rule]}]

    return edit


def _drop_deployments(csv: dict[str, Any]) -> None:
    csv["spec"]["install"]["spec"].pop("deployments", None)


def _value_from(csv: dict[str, Any]) -> None:
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    _containers(csv)[0].setdefault("env", []).append({"name": "RELATED_IMAGE_Y", "valueFrom": source})


_EDITS = {
    "all-features": _annotate(features()),
    "false-features": _annotate(dict.fromkeys(preflight.REQUIRED_FEATURES, "false")),
    "odd-feature": _annotate(features(proxy_aware="True")),
    "odd-optional-feature": _annotate({**features(), "features.operators.openshift.io/csi": "no"}),
    "missing-feature": _annotate(features(fips_compliant=None)),
    "infrastructure": _annotate({preflight.INFRASTRUCTURE: '["Disconnected", "Proxy"]'}),
    "infrastructure-mixed": _annotate({preflight.INFRASTRUCTURE: '["disconnected", 1]'}),
    "infrastructure-text": _annotate({preflight.INFRASTRUCTURE: "disconnected"}),
    "related-pinned": _related(f"quay.io/a/b{DIGEST}"),
    "related-tag": _related("quay.io/a/b:1"),
    "related-none": _related(),
    "related-without-env": _related(f"quay.io/a/b{DIGEST}", env=False),
    "related-unclaimed": _related(f"quay.io/a/b{DIGEST}", claims=False),
    "images-pinned": _set_images(f"quay.io/a/b{DIGEST}"),
    "images-tag": _set_images("quay.io/a/b:1"),
    "images-untagged": _set_images("quay.io/a/b"),
    "images-short-digest": _set_images("quay.io/a/b@sha256:12"),
    "images-upper-case": _set_images(f"quay.io/A/b{DIGEST}"),
    "images-tag-and-digest": _set_images(f"quay.io/a/b:1{DIGEST}"),
    "images-port": _set_images(f"localhost:5000/a{DIGEST}"),
    "images-nested": _set_images(f"quay.io/a/b/c/d{DIGEST}"),
    "annotation-image": _annotate({"note": "see quay.io/x/y:1, (quay.io/x/z:2). a.b/c:1/ d..e/f:1 https://a.b/c:1"}),
    "one-scc": _sccs("anyuid"),
    "two-sccs": _sccs("anyuid", "privileged"),
    "no-scc-name": _sccs(),
    "no-deployments": _drop_deployments,
    "value-from": _value_from,
}


def bundles() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield names and files."""
    directories = sorted(path for path in BUNDLES.glob("*/*") if (path / "manifests").is_dir())
    for number, directory in enumerate(directories):
        if (directory.parent.name, directory.name) == ("syn-text", "1.2.0"):
            continue  # it has an infinite number, with which preflight's optional checks of images end with an error
        files = files_below(directory)
        yield f"{directory.parent.name}/{directory.name}", files
        if number % 25 == 0 and preflight.ANNOTATIONS_FILE in files:
            yield from ((f"{directory.parent.name}: {name}", changed) for name, changed in mutants(files))
    for broken in broken_bundles():
        if str(broken) == "file-encoding":  # a manifest in UTF-16, which the Go validators cannot read
            continue
        yield f"broken: {broken}", broken.files


def outcomes(files: Mapping[str, bytes]) -> tuple[dict[str, CheckOutcome], set[str]]:
    """Return the outcomes of checks, and the images that are not related images."""
    found = view(files, Compat.NEWEST)
    checks = list(preflight.enforced_checks(run_profile(found, profile_named(PREFLIGHT))))
    extracted = preflight.as_extracted(found)
    checks += [check(extracted) for check in preflight.CHECKS if check is not preflight.check_annotations]
    loaded = checks[1].outcome is not CheckOutcome.ERROR
    unlisted = next(check for check in checks if check.name is CheckName.RELATED_IMAGES).problems
    images = {problem.message.split()[2] for problem in unlisted if problem.message.startswith("the image ")}
    by_loading = {CheckName.SECURITY_CONTEXT, CheckName.RESTRICTED_NETWORK}
    return {
        check.name: check.outcome if loaded or check.name not in by_loading else CheckOutcome.ERROR for check in checks
    }, images


def test_outcomes_equal(registry: Registry, tmp_path: Path) -> None:
    named = list(bundles())
    names = [
        push_image(f"{registry.host}/preflight/b{number}:1", small_image(tmp_path, files))
        for number, (_, files) in enumerate(named)
    ]
    done = subprocess.run([PROGRAM], input="\n".join(names), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stderr[-2000:])
    lines = done.stdout.split("\n")
    answers = [json.loads(line) for line in lines if line.startswith("{")]  # its libraries print as well
    different: list[tuple[object, ...]] = []
    equal = crashes = 0
    for (name, files), answer in zip(named, answers, strict=True):
        got, images = outcomes(files)
        if "crash" in answer:
            crashes += 1
            if got[CheckName.VALID] is CheckOutcome.PASSED and CheckOutcome.ERROR not in got.values():
                different.append((name, "only preflight crashes", answer))
            continue
        assert "checks" in answer, (name, answer)
        for check, outcome in got.items():
            theirs = answer["checks"][check]
            want = OUTCOMES[theirs["result"]]
            if outcome in UNDECIDED or (check == CheckName.CERTIFIED_IMAGES and "dial tcp" in str(theirs["error"])):
                continue
            equal += outcome is want
            if outcome is not want:
                different.append((name, check, f"ours: {outcome}", theirs))
        if set(answer["unlisted"] or ()) != images:
            different.append((name, "unlisted", sorted(images), sorted(answer["unlisted"] or ())))
    print(f"{len(named)} bundles, {equal} equal outcomes, {crashes} crashes, {len(different)} different")
    assert not different, "\n".join(map(str, different[:50]))
