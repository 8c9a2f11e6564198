"""Conversion of bundles to ConfigMaps."""

from __future__ import annotations

import base64
import gzip

import pytest

from opmkit.bundle.config_map import ConfigMap, ExtractionOptions, bundle_config_map
from opmkit.bundle.errors import BundleError, InvalidBundle
from tests.kit.bundles import bundle_content, bundle_labels

FILES = bundle_content("demo", "1.0.0")
LABELS = {**bundle_labels("demo"), "operators.operatorframework.io.bundle.channel.default.v1": ""}
TARGET = ExtractionOptions("olm", "demo")


def test_files_become_data_and_annotations() -> None:
    files = {**FILES, "metadata/dependencies.yaml": b"dependencies: []\n", "manifests/deep/x.yaml": b"", "README": b"x"}
    assert bundle_config_map(files, TARGET) == ConfigMap(
        *("olm", "demo"),
        data={"csv.yaml": FILES["manifests/csv.yaml"].decode(), "dependencies.yaml": "dependencies: []\n"},
        annotations=LABELS,
    )


def test_image_is_an_annotation() -> None:
    config_map = bundle_config_map(FILES, ExtractionOptions("olm", "demo", image="quay.io/me/demo:1"))
    assert config_map.annotations == {**LABELS, "olm.sourceImage": "quay.io/me/demo:1"}


def test_compression_is_reproducible() -> None:
    config_map = bundle_config_map(FILES, ExtractionOptions("olm", "demo", compress=True))
    assert config_map == bundle_config_map(FILES, ExtractionOptions("olm", "demo", compress=True))
    assert config_map.annotations == {**LABELS, "olm.contentEncoding": "gzip+base64"}
    assert config_map.data == {}
    [(key, value)] = config_map.binary_data.items()
    assert key == "csv.yaml"
    assert gzip.decompress(base64.b64decode(value, validate=True)) == FILES["manifests/csv.yaml"]


def test_files_that_are_not_utf8_are_binary_data() -> None:
    config_map = bundle_config_map({**FILES, "manifests/icon.bin": b"\xff\x00"}, TARGET)
    assert config_map.binary_data == {"icon.bin": b"\xff\x00"}
    assert config_map.to_dict()["binaryData"] == {"icon.bin": "/wA="}


def test_equal_keys_get_numbers() -> None:
    twins = {"manifests/a:b": b"1", "manifests/a-b": b"2", "metadata/a-b": b"3", "metadata/" + "x" * 254: b"4"}
    config_map = bundle_config_map({**FILES, **twins, "metadata/" + "x" * 255: b"5"}, TARGET)
    assert {config_map.data[key] for key in ("a-b", "a-b.2", "a-b.3")} == {"1", "2", "3"}
    assert {config_map.data[key] for key in ("x" * 253, "x" * 249 + ".2")} == {"4", "5"}


@pytest.mark.parametrize(
    ("limit", "compress", "hint"), [(10, False, "data_limit"), (10, True, "data_limit"), (1 << 20, False, "gzip")]
)
def test_size_limit(limit: int, compress: bool, hint: str) -> None:
    files = {**FILES, "manifests/z.yaml": b"#" * (1 << 20)}
    with pytest.raises(BundleError, match=f"bundle files exceeded {limit} bytes limit, at manifests/") as failure:
        bundle_config_map(files, ExtractionOptions("olm", "demo", limit, compress))
    assert hint in str(failure.value.hint)


def test_size_limit_applies_to_the_stored_data() -> None:
    size = len(FILES["manifests/csv.yaml"])
    assert bundle_config_map(FILES, ExtractionOptions("olm", "demo", size)).data
    with pytest.raises(BundleError):
        bundle_config_map(FILES, ExtractionOptions("olm", "demo", size - 1))
    large = {**FILES, "manifests/z.yaml": b"#" * (2 << 20)}
    assert bundle_config_map(large, ExtractionOptions("olm", "demo", compress=True)).binary_data


def test_annotations_are_required() -> None:
    with pytest.raises(InvalidBundle, match="no annotations for the package and channels"):
        bundle_config_map({"manifests/csv.yaml": FILES["manifests/csv.yaml"]}, TARGET)
