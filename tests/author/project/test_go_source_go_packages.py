"""Go packages in a directory tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.author.project import go_source
from opmkit.author.project.go_source import load_packages
from opmkit.bundle.errors import InvalidProject

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "// +groupName=example.com\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_groups_and_versions(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "go.mod": 'module "example.com/op" // comment\n',
            "api/v1/doc.go": f"{GROUP}package v1",
            "api/v1/types.go": "package v1\ntype A struct{}",
            "api/v2/types.go": f"{GROUP}// +versionName=v2beta1\npackage v2",
            "api/common/types.go": "package common",
            "api/old/types.go": f"{GROUP}// +kubebuilder:skip\npackage old",
            "api/nested/go.mod": "module example.com/nested\n",
            "api/nested/v3/types.go": f"{GROUP}package v3",
        },
    )
    packages = load_packages(tmp_path / "api")
    assert {path: (package.group, package.version) for path, package in packages.items()} == {
        "example.com/op/api/v1": ("example.com", "v1"),
        "example.com/op/api/v2": ("example.com", "v2beta1"),
        "example.com/op/api/common": ("", ""),
        "example.com/op/api/old": ("", ""),
        "example.com/nested/v3": ("example.com", "v3"),
    }
    assert list(packages["example.com/op/api/v1"].types) == ["A"]


def test_files_are_selected_as_by_the_go_command(tmp_path: Path) -> None:
    names = ("a.go", "a_linux.go", "arm64.go", "a_test.go", "a_windows.go", "a_arm64.go", "_a.go", ".a.go", "a.txt")
    write(tmp_path, {f"v1/{name}": "package v1" for name in names})
    write(tmp_path, {"v1/ignored.go": "//go:build ignore\n\npackage main"})
    write(tmp_path, {"v1/generated.go": "//go:build !ignore\n\npackage v1"})
    write(tmp_path, {f"v1/{name}/a.go": "not Go" for name in ("testdata", "vendor", "_x", ".x")})
    (package,) = load_packages(tmp_path).values()
    assert [file.name for file in package.files] == ["a.go", "a_linux.go", "arm64.go", "generated.go"]


def test_invalid_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"v1/a.go": "package v1\n\ntype type\n"})
    with pytest.raises(InvalidProject, match=r"v1/a\.go:3:\d+: invalid Go syntax"):
        load_packages(tmp_path)
    monkeypatch.setattr(go_source, "MAX_BYTES", 10)
    with pytest.raises(InvalidProject, match=r"v1/a\.go: exceeds the limit of 10 bytes"):
        load_packages(tmp_path)
