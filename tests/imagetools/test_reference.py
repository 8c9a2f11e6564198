"""Parsing of image references."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import (
    DaemonReference,
    DockerArchiveReference,
    ImageReference,
    LayoutReference,
    OciArchiveReference,
    Reference,
    StorageReference,
    StoreReference,
    named_path,
    parse_image_reference,
    pin_reference,
)

SHA256 = "sha256:" + "0123456789abcdef" * 4
SHA512 = "sha512:" + "0123456789abcdef" * 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alpine", Reference("docker.io", "library/alpine")),
        ("alpine:3", Reference("docker.io", "library/alpine", "3")),
        ("ns/name", Reference("docker.io", "ns/name")),
        ("docker.io/alpine", Reference("docker.io", "library/alpine")),
        ("index.docker.io/alpine", Reference("docker.io", "library/alpine")),
        ("index.docker.io/ns/name:t", Reference("docker.io", "ns/name", "t")),
        ("localhost/name", Reference("localhost", "name")),
        ("localhost:5000/name:1", Reference("localhost:5000", "name", "1")),
        ("host:5000/a/b/c", Reference("host:5000", "a/b/c")),
        ("quay.io/ns/name:v1.0_x-y", Reference("quay.io", "ns/name", "v1.0_x-y")),
        ("Host/name", Reference("Host", "name")),
        ("127.0.0.1:5000/x", Reference("127.0.0.1:5000", "x")),
        ("[::1]:5000/x:1", Reference("[::1]:5000", "x", "1")),
        ("[2001:db8::1]/x", Reference("[2001:db8::1]", "x")),
        (f"quay.io/n/x@{SHA256}", Reference("quay.io", "n/x", None, SHA256)),
        (f"quay.io/n/x:1@{SHA256}", Reference("quay.io", "n/x", "1", SHA256)),
        (f"x@{SHA512}", Reference("docker.io", "library/x", None, SHA512)),
        ("a__b/c---d/e.f_g", Reference("docker.io", "a__b/c---d/e.f_g")),
        ("registry.example.com./x", None),
        ("foo.com:80/", None),
    ],
)
def test_docker_grammar(text: str, expected: Reference | None) -> None:
    if expected is None:
        with pytest.raises(InvalidReference):
            Reference.parse(text)
    else:
        assert Reference.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("", "name is missing", "NAME"),
        ("docker.io/", "name is missing", "NAME"),
        ("Alpine", "upper-case", "'library/alpine'"),
        ("quay.io/Ns/x", "upper-case", "'ns/x'"),
        ("https://quay.io/ns/x", "URL", "write quay.io/ns/x"),
        ("http://quay.io/ns/x", "URL", "write quay.io/ns/x"),
        ("docker://https://quay.io/ns/x", "URL", "write quay.io/ns/x"),
        ("a" * 64, "image ID", "NAME@sha256"),
        ("quay.io/ns/x:", "invalid tag", "128"),
        ("quay.io/ns/x:.a", "invalid tag", "start"),
        ("quay.io/ns/x:" + "a" * 129, "invalid tag", "128"),
        ("quay.io/ns/x:a b", "invalid tag", "letters"),
        ("quay.io/ns/x@sha256:abc", "invalid digest", "64"),
        ("quay.io/ns/x@" + SHA256.upper(), "invalid digest", "lower-case"),
        ("quay.io/ns/x@md5:" + "a" * 32, "invalid digest", "sha256"),
        ("quay.io/ns/x@", "invalid digest", "sha256"),
        ("a//b", "invalid repository name", "separated"),
        ("a/b/", "invalid repository name", "separated"),
        ("a/-b", "invalid repository name", "separated"),
        ("a/b..c", "invalid repository name", "separated"),
        ("a/b___c", "invalid repository name", "separated"),
        ("a b", "invalid repository name", "separated"),
        ("a/b\n", "invalid repository name", "separated"),
        ("-host.example/x", "invalid registry host", "HOST"),
        ("host:port/x", "invalid registry host", "HOST"),
        ("::1/x", "invalid registry host", "HOST"),
        ("quay.io/" + "a" * 256, "exceeds 255", "shorten"),
        ("./bundle", "it is a path", "oci-archive:FILE"),
        ("/var/images", "it is a path", "oci:DIR"),
        ("dir:bundle", "unsupported transport dir", "docker.io/library/dir:bundle"),
        ("foo:bar/baz", "invalid registry host 'foo:bar'", "KIND:... with one of oci, oci-archive"),
        ("atomic:host/x", "invalid registry host", "containers-storage"),
        ("oci-archive:", "file is missing", "oci-archive:FILE"),
        ("oci-archive::1", "file is missing", "oci-archive:FILE"),
        ("oci-archive:x.tar:", "invalid image name", "letters"),
        ("oci-archive:x.tar:a//b", "invalid image name", "letters"),
        ("oci-archive:x\0.tar", "NUL", "remove"),
        ("docker-archive:", "file is missing", "docker-archive:FILE"),
        ("docker-archive:x.tar:", "name is missing", "NAME"),
        ("docker-archive:x.tar:@x", "invalid position", "@0"),
        ("docker-archive:x.tar:@-1", "invalid position", "@0"),
        ("docker-archive:x.tar:Name", "upper-case", "'library/name'"),
        (f"docker-archive:x.tar:name@{SHA256}", "digests are not supported", "tag"),
        ("docker-daemon:", "name is missing", "NAME"),
        ("docker-daemon:" + "a" * 64, "image ID", "docker-daemon:sha256:aaa"),
        (f"docker-daemon:name@{SHA256}", "digests are not supported", "tag"),
        ("containers-storage:", "name is missing", "NAME"),
        ("containers-storage:[vfs@/x]name", "storage location", "brackets"),
        ("store:", "name is missing", "NAME"),
        ("store:a b", "invalid repository name", "separated"),
        ("oci:", "directory is missing", "oci:DIR"),
        ("oci:dir:a:b", "invalid tag", "letters"),
        ("oci:dir:", "invalid tag", "letters"),
    ],
)
def test_errors_have_a_reason_and_a_hint(text: str, reason: str, hint: str) -> None:
    with pytest.raises(InvalidReference) as caught:
        parse_image_reference(text)
    assert f"{text!r}" in caught.value.message
    assert reason in caught.value.message
    assert hint in str(caught.value.hint)


def test_longest_repository_name() -> None:
    assert Reference.parse("quay.io/" + "a" * 255).repository == "a" * 255


@pytest.mark.parametrize(
    ("text", "path", "tag", "digest"),
    [
        ("oci:dir", "dir", None, None),
        ("oci:dir:tag", "dir", "tag", None),
        ("oci:/a:b/c:t", "/a:b/c", "t", None),
        ("oci:/a:b/c", "/a:b/c", None, None),
        ("oci:/a@b/c", "/a@b/c", None, None),
        ("oci:../x y:1.0", "../x y", "1.0", None),
        (f"oci:dir@{SHA256}", "dir", None, SHA256),
        (f"oci:dir:t@{SHA256}", "dir", "t", SHA256),
    ],
)
def test_layout_references(text: str, path: str, tag: str | None, digest: str | None) -> None:
    reference = parse_image_reference(text)
    assert reference == LayoutReference(Path(path), tag, digest)
    assert str(reference) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci-archive:a/b.tar", OciArchiveReference(Path("a/b.tar"))),
        ("oci-archive:b.tar:1.0", OciArchiveReference(Path("b.tar"), "1.0")),
        ("oci-archive:b.tar:quay.io/a/b:1", OciArchiveReference(Path("b.tar"), "quay.io/a/b:1")),
        (f"oci-archive:b.tar@{SHA256}", OciArchiveReference(Path("b.tar"), "", SHA256)),
        (f"oci-archive:b.tar:x@{SHA256}", OciArchiveReference(Path("b.tar"), "x", SHA256)),
        ("docker-archive:/a/b.tar", DockerArchiveReference(Path("/a/b.tar"))),
        ("docker-archive:b.tar:x", DockerArchiveReference(Path("b.tar"), "x")),
        ("docker-archive:b.tar:quay.io/a/b:1", DockerArchiveReference(Path("b.tar"), "quay.io/a/b:1")),
        ("docker-archive:b.tar:@2", DockerArchiveReference(Path("b.tar"), position=2)),
        ("docker-daemon:x", DaemonReference("x")),
        ("docker-daemon:localhost:5000/x:1", DaemonReference("localhost:5000/x:1")),
        (f"docker-daemon:{SHA256}", DaemonReference(SHA256)),
        ("containers-storage:localhost/x:1", StorageReference("localhost/x:1")),
        ("store:quay.io/a/b", StoreReference("quay.io/a/b")),
        (f"store:b@{SHA256}", StoreReference(f"b@{SHA256}")),
    ],
)
def test_local_references(text: str, expected: ImageReference) -> None:
    reference = parse_image_reference(text)
    assert reference == expected
    assert str(reference) == text


def test_names_in_local_references_get_defaults() -> None:
    expected = Reference("docker.io", "library/x", "latest")
    for text in ("docker-daemon:x", "containers-storage:x", "store:x", "docker-archive:a.tar:x"):
        reference = parse_image_reference(text)
        assert not isinstance(reference, Reference | LayoutReference | OciArchiveReference)
        assert reference.reference == expected
    assert DockerArchiveReference(Path("a.tar")).reference is None
    assert DaemonReference(SHA256).reference is None


def test_docker_prefix() -> None:
    for parse in (Reference.parse, parse_image_reference):
        assert parse("docker://quay.io/a/b:1") == Reference("quay.io", "a/b", "1")
        assert parse("docker://alpine") == Reference.parse("alpine")


def test_identifier_and_modified_copies() -> None:
    reference = Reference.parse(f"quay.io/a/b:1@{SHA256}")
    assert reference.name == "quay.io/a/b"
    assert reference.identifier == SHA256
    assert str(reference.with_tag("2")) == "quay.io/a/b:2"
    assert str(reference.with_digest(SHA256)) == f"quay.io/a/b@{SHA256}"
    assert Reference.parse("quay.io/a/b").identifier == "latest"
    assert str(Reference.parse("quay.io/a/b").with_default_tag()) == "quay.io/a/b:latest"
    assert reference.with_default_tag() is reference
    with pytest.raises(InvalidReference):
        reference.with_tag("no tag")


def test_identifier_of_an_image_in_a_layout() -> None:
    for reference, identifier in [("oci:dir", ""), ("oci:dir:1", "1"), (f"oci:dir@{SHA256}", SHA256)]:
        layout = parse_image_reference(reference)
        assert isinstance(layout, LayoutReference)
        assert layout.identifier == identifier


HOSTS = st.sampled_from(["docker.io", "quay.io", "localhost", "localhost:5000", "[::1]:5000", "UPPER", "a.b-c.d:80"])
NAMES = st.from_regex(r"[a-z0-9]+((\.|_|__|-{1,3})[a-z0-9]+){0,2}(/[a-z0-9]+){0,2}", fullmatch=True)
TAGS = st.none() | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", fullmatch=True)


@pytest.mark.slow
@given(HOSTS, NAMES, TAGS, st.sampled_from([None, SHA256, SHA512]))
def test_canonical_text_round_trip(host: str, name: str, tag: str | None, digest: str | None) -> None:
    parsed = Reference.parse(str(Reference(host, name, tag, digest)))
    expected = f"library/{name}" if host == "docker.io" and "/" not in name else name
    assert parsed == Reference(host, expected, tag, digest)
    assert Reference.parse(str(parsed)) == parsed


TRANSPORTS = ["", "oci:", "oci-archive:", "docker-archive:", "docker-daemon:", "containers-storage:", "store:", "dir:"]


@given(st.builds(str.__add__, st.sampled_from(TRANSPORTS), st.text(max_size=80)))
def test_random_text(text: str) -> None:
    try:
        reference = parse_image_reference(text)
    except InvalidReference as error:
        assert str(error.hint)  # noqa: PT017
    else:
        assert parse_image_reference(str(reference)) == reference


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        ("quay.io/n/x:1", f"quay.io/n/x@{SHA256}"),
        (f"quay.io/n/x:1@{SHA512}", f"quay.io/n/x@{SHA256}"),
        ("oci:images", f"oci:images@{SHA256}"),
        ("oci:images:1", f"oci:images@{SHA256}"),
        ("oci-archive:x.tar:quay.io/n/x:1", f"oci-archive:x.tar@{SHA256}"),
        ("docker-archive:x.tar:quay.io/n/x:1", "docker-archive:x.tar:quay.io/n/x:1"),
        ("docker-daemon:x:1", "docker-daemon:x:1"),
        ("containers-storage:x:1", "containers-storage:x:1"),
        ("store:x:1", "store:x:1"),
    ],
)
def test_pinned_references_have_the_digest_instead_of_a_tag(text: str, pinned: str) -> None:
    assert pin_reference(parse_image_reference(text), SHA256) == parse_image_reference(pinned)


@pytest.mark.parametrize(
    "text",
    [
        "quay.io/me/catalog",
        "quay.io/me/catalog:1",
        "localhost/me/catalog",
        "127.0.0.1:5000/me/catalog",
        "10.0.0.1/me/catalog",
        "me/catalog:1",
        "catalog:1",
        f"me/catalog@sha256:{'0' * 64}",
    ],
)
def test_paths_with_the_name_of_an_image_are_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert named_path(text) is None
    (tmp_path / text).mkdir(parents=True)
    with pytest.raises(InvalidReference, match="both an image and a file or directory") as caught:
        named_path(text)
    assert str(caught.value.hint) == f"write ./{text} for the file or directory, or docker://{text} for the image"
    assert named_path(f"./{text}") == Path(text)
    (tmp_path / "docker:" / text).mkdir(parents=True)
    assert named_path(f"docker://{text}") is None


@pytest.mark.parametrize("text", ["catalog", "deploy/0.1.0", "0.1.0/manifests", "v1.2.x/a", "index.db", "a:b c", "A/b"])
def test_other_names_are_those_of_paths(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / text).mkdir(parents=True)
    assert named_path(text) == Path(text)


@pytest.mark.parametrize("text", ["oci:layout:1", "oci-archive:a.tar", "store:a:1", "containers-storage:a:1"])
def test_transports_name_images(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / text).mkdir(parents=True)
    assert named_path(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "docker://user:S3#cret@h/x:1",
        "user:S3#cret@h/x:1",
        "user:S3/cret@h/x:1",
        "http:/user:S3cret@h/x",
        "//user:S3cret@h/x",
        "https://user:S3/cret@h/x",
    ],
)
def test_errors_have_no_passwords(text: str) -> None:
    with pytest.raises(InvalidReference) as caught:
        parse_image_reference(text)
    assert "cret" not in f"{caught.value}{caught.value.to_dict()}"
