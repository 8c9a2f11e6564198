"""Resolution of images, replacements and exclusions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.pinning import fake_digest

from opmkit.author.pin.object_images import find_object_images
from opmkit.author.pin.pinnable_file import PinnableFile
from opmkit.author.pin.resolve import PinOptions, Replacements, UnresolvedImages, find_unpinned, resolve_images
from opmkit.bundle.errors import BundleError
from opmkit.imagetools.errors import NotFound

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.reference import Reference

DIGEST = f"sha256:{'0' * 64}"


def pods(*images: str) -> PinnableFile:
    """Return a file with a container for each image, which is named after its number."""
    containers = "".join(f"  - {{name: c{number}, image: '{image}'}}\n" for number, image in enumerate(images))
    return PinnableFile.read("a.yaml", f"kind: Pod\nspec:\n  containers:\n{containers}".encode(), find_object_images)


def resolve(*images: str, replace: tuple[str, ...] = (), file: Path | None = None) -> dict[str, str]:
    """Return the replacements of images whose digests are all the same."""
    options = PinOptions(Replacements.parse(replace, file))
    return resolve_images(pods(*images).uses(), options, lambda _: DIGEST)


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("quay.io/a/b:1", f"quay.io/a/b@{DIGEST}"),
        ("quay.io/a/b", f"quay.io/a/b@{DIGEST}"),
        ("localhost:5000/b", f"localhost:5000/b@{DIGEST}"),
        ("localhost:5000/b:1", f"localhost:5000/b@{DIGEST}"),
        ("nginx", f"nginx@{DIGEST}"),
        ("nginx:1.2", f"nginx@{DIGEST}"),
        (f"quay.io/a/b@{DIGEST}", f"quay.io/a/b@{DIGEST}"),
        (f"quay.io/a/b:1@{DIGEST}", f"quay.io/a/b:1@{DIGEST}"),
    ],
)
def test_names_of_pinned_images(image: str, pinned: str) -> None:
    assert resolve(image) == {image: pinned}


def test_each_image_is_asked_once() -> None:
    asked: list[str] = []

    def digest(reference: Reference) -> str:
        asked.append(str(reference))
        return DIGEST

    images = ("quay.io/a/b:1", "quay.io/a/b:1", "quay.io/a/c", "quay.io/a/c:latest", f"quay.io/a/d@{DIGEST}")
    resolve_images(pods(*images).uses(), PinOptions(), digest)
    assert sorted(asked) == ["quay.io/a/b:1", "quay.io/a/c:latest"]


def test_verification_asks_for_images_with_digests_as_well() -> None:
    def digest(reference: Reference) -> str:
        raise NotFound(f"{reference}: not found")

    uses = list(pods(f"quay.io/a/b@{DIGEST}").uses())
    with pytest.raises(UnresolvedImages, match="a/b@sha256"):
        resolve_images(uses, PinOptions(verify=True), digest)
    found = resolve_images(uses, PinOptions(verify=True), lambda _: DIGEST)
    assert found == {f"quay.io/a/b@{DIGEST}": f"quay.io/a/b@{DIGEST}"}


def test_an_unresolved_image_is_named_with_file_and_line() -> None:
    def digest(reference: Reference) -> str:
        raise NotFound(f"{reference.name}: tag {reference.tag} does not exist", hint="check the tag")

    with pytest.raises(UnresolvedImages) as raised:
        resolve_images(pods("quay.io/a/b:1").uses(), PinOptions(), digest)
    assert raised.value.lines == ("a.yaml:4: container c0: quay.io/a/b:1: quay.io/a/b: tag 1 does not exist",)
    assert "check the tag" in str(raised.value.hint)
    assert "exclude" in str(raised.value.hint)


def test_all_unresolved_images_are_listed() -> None:
    def digest(reference: Reference) -> str:
        if reference.tag == "good":
            return DIGEST
        raise NotFound("missing")

    images = ("quay.io/a/b:1", "quay.io/a/b:good", "$(IMAGE)", "quay.io/A/b:2")
    with pytest.raises(UnresolvedImages) as raised:
        resolve_images(pods(*images).uses(), PinOptions(), digest)
    assert raised.value.lines[0] == "3 images cannot be pinned"
    assert {line.split(":")[1] for line in raised.value.lines[1:]} == {"4", "6", "7"}


def test_excluded_images_are_unchanged() -> None:
    uses = list(pods("quay.io/a/b:1", "quay.io/a/c:1", "$(IMAGE)").uses())
    options = PinOptions(exclude=("quay.io/a/c:*", "$(*)"))
    found = resolve_images(uses, options, lambda _: DIGEST)
    assert found == {
        "quay.io/a/b:1": f"quay.io/a/b@{DIGEST}",
        "quay.io/a/c:1": "quay.io/a/c:1",
        "$(IMAGE)": "$(IMAGE)",
    }
    assert [use.image for use in find_unpinned(uses, options)] == ["quay.io/a/b:1"]


def test_unpinned_images_are_in_the_order_of_the_file() -> None:
    images = ("quay.io/a/b:1", f"quay.io/a/d@{DIGEST}", f"quay.io/a/e:1@{DIGEST}", "quay.io/a/c", "quay.io/a/b:1", "?")
    found = [(use.line, use.image) for use in find_unpinned(pods(*images).uses(), PinOptions())]
    assert found == [(4, "quay.io/a/b:1"), (7, "quay.io/a/c"), (8, "quay.io/a/b:1"), (9, "?")]


@pytest.mark.parametrize(
    ("replace", "image", "result"),
    [
        (("quay.io=reg.corp:5000/q",), "quay.io/a/b:1", f"reg.corp:5000/q/a/b@{DIGEST}"),
        (("quay.io=reg.corp", "quay.io/a=other.corp/x/"), "quay.io/a/b:1", f"other.corp/x/b@{DIGEST}"),
        (("quay.io/a/b=other.corp/c",), "quay.io/a/b:1", f"other.corp/c@{DIGEST}"),
        (("quay.io/a=other.corp",), "quay.io/ab/c:1", f"quay.io/ab/c@{DIGEST}"),
        (("quay.io=reg.corp",), f"quay.io/a/b@{DIGEST}", f"reg.corp/a/b@{DIGEST}"),
        (("quay.io=reg.corp",), f"quay.io/a/b:1@{DIGEST}", f"reg.corp/a/b:1@{DIGEST}"),
        (("docker.io=reg.corp",), "nginx:1", f"reg.corp/library/nginx@{DIGEST}"),
        (("nginx=reg.corp/nginx",), "nginx:1", f"reg.corp/nginx@{DIGEST}"),
        (("localhost:5000=reg.corp",), "localhost:5000/a:1", f"reg.corp/a@{DIGEST}"),
    ],
)
def test_replaced_registries(replace: tuple[str, ...], image: str, result: str) -> None:
    assert resolve(image, replace=replace) == {image: result}


def test_a_file_replaces_images_and_registries(tmp_path: Path) -> None:
    file = tmp_path / "replacements.yaml"
    file.write_text(
        f"quay.io/a/b:1: reg.corp/b@{DIGEST}\n"
        "quay.io/a/c:1: quay.io/a/c:2\n"
        "quay.io/a: other.corp/a\nquay.io: reg.corp\nlocalhost:5000: other.corp\n"
    )
    asked: list[str] = []

    def digest(reference: Reference) -> str:
        asked.append(str(reference))
        return fake_digest(reference)

    uses = pods("quay.io/a/b:1", "quay.io/a/c:1", "quay.io/a/d:1", "quay.io/x:1", "localhost:5000/y:1").uses()
    options = PinOptions(Replacements.parse(["quay.io=last.corp"], file))
    found = resolve_images(uses, options, digest)
    assert sorted(asked) == ["localhost:5000/y:1", "quay.io/a/c:2", "quay.io/a/d:1", "quay.io/x:1"]
    names = [name.partition("@")[0] for name in found.values()]
    assert names == ["reg.corp/b", "quay.io/a/c", "other.corp/a/d", "last.corp/x", "other.corp/y"]


@pytest.mark.parametrize("text", ["quay.io", "=x", "quay.io=", "a b=c", "quay.io=https://x"])
def test_invalid_replacements(text: str) -> None:
    with pytest.raises(BundleError) as raised:
        Replacements.parse([text])
    assert raised.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n", "the document is a list, not a mapping"),
        ("a: 1\n", "the replacement of a is a number, not a string"),
        ("quay.io/a:1: '?'\n", "invalid image reference"),
        ("'?': quay.io\n", "invalid image reference"),
        ("{", "replacements.yaml:"),
    ],
)
def test_invalid_files(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "replacements.yaml"
    file.write_text(content)
    with pytest.raises(BundleError, match=message):
        Replacements.parse([], file)
