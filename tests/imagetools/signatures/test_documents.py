"""Payloads, envelopes, statements and bundles."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.imagetools.signatures.documents import IN_TOTO, Envelope, SigstoreBundle, SimpleSigning, Statement
from opmkit.imagetools.signatures.errors import InvalidSignature
from tests.kit.signing import NAME, private_key

DIGEST = "sha256:" + "a" * 64
STATEMENT = Statement(DIGEST, "https://example.com/type", {"x": [1]}, NAME, {"a": "b"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def test_payload_has_the_bytes_of_cosign() -> None:
    expected = (
        f'{{"critical":{{"identity":{{"docker-reference":"{NAME}"}},'
        f'"image":{{"docker-manifest-digest":"{DIGEST}"}},"type":"cosign container image signature"}},"optional":null}}'
    )
    assert SimpleSigning(NAME, DIGEST).encode().decode() == expected


def test_documents_round_trip() -> None:
    payload = SimpleSigning(NAME, DIGEST, {"a": "b"})
    assert SimpleSigning.parse(payload.encode()) == payload
    assert Statement.parse(STATEMENT.encode(), DIGEST) == STATEMENT
    envelope = Envelope.sign(STATEMENT.encode(), private_key("ecdsa"))
    assert Envelope.parse(envelope.encode()) == envelope
    assert SigstoreBundle.parse(SigstoreBundle(envelope, "hint").encode()) == SigstoreBundle(envelope, "hint")


def test_pre_authentication_encoding() -> None:
    # The example of the DSSE specification.
    envelope = Envelope("http://example.com/HelloWorld", b"hello world")
    assert envelope.signed_content == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_envelope_with_several_signatures() -> None:
    one, two = (Envelope.sign(b"x", private_key(kind)) for kind in ("ecdsa", "ed25519"))
    both = Envelope(IN_TOTO, b"x", one.signatures + two.signatures)
    assert both.is_signed_by(private_key("ed25519").public_key)
    assert not one.is_signed_by(private_key("ed25519").public_key)
    assert not Envelope("text/plain", b"x", one.signatures).is_signed_by(private_key("ecdsa").public_key)


def test_statement_about_several_images() -> None:
    other = "sha256:" + "b" * 64
    document = json.loads(STATEMENT.encode())
    document["subject"].insert(0, {"name": "other", "digest": {"sha256": "b" * 64}})
    raw = json.dumps(document).encode()
    assert Statement.parse(raw, DIGEST) == STATEMENT
    assert Statement.parse(raw, other).repository == "other"
    with pytest.raises(InvalidSignature, match="another image"):
        Statement.parse(raw, "sha512:" + "a" * 128)


def edited(raw: bytes, **changes: Any) -> bytes:
    return json.dumps(json.loads(raw) | changes).encode()


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "invalid JSON"),
        (b"[]", "expected an object"),
        (b"[" * 100_000, "JSON"),
        (edited(SimpleSigning(NAME, DIGEST).encode(), critical={"type": "x"}), "not a signature of a container image"),
        (edited(SimpleSigning(NAME, DIGEST).encode(), critical=1), "expected an object"),
        (edited(SimpleSigning(NAME, DIGEST).encode(), optional=[1]), "expected an object"),
        (b" " * ((1 << 20) + 1), "exceed the limit"),
    ],
    ids=count(),
)
def test_malformed_payloads(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidSignature, match=problem):
        SimpleSigning.parse(raw)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (edited(STATEMENT.encode(), _type="x"), "not an in-toto statement"),
        (edited(STATEMENT.encode(), subject=[]), "another image"),
        (edited(STATEMENT.encode(), subject=[1]), "expected an object"),
        (edited(STATEMENT.encode(), predicate="x"), "expected an object"),
        (edited(STATEMENT.encode(), predicateType=1), "expected a string"),
        (edited(STATEMENT.encode(), subject=[{}] * 2000), "exceed the limit"),
    ],
    ids=count(),
)
def test_malformed_statements(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidSignature, match=problem):
        Statement.parse(raw, DIGEST)


ENVELOPE = Envelope.sign(b"x", private_key("ed25519")).encode()


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (edited(ENVELOPE, payload="?"), "invalid base64"),
        (edited(ENVELOPE, payload="é"), "invalid base64"),
        (edited(ENVELOPE, signatures=[{"sig": 1}]), "expected a string"),
        (edited(ENVELOPE, signatures=[{}] * 1000), "exceed the limit"),
        (edited(ENVELOPE, signatures={}), "expected a list"),
    ],
    ids=count(),
)
def test_malformed_envelopes(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidSignature, match=problem):
        Envelope.parse(raw)


BUNDLE = SigstoreBundle(Envelope.parse(ENVELOPE)).encode()


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (edited(BUNDLE, mediaType="application/json"), "unsupported type of bundle"),
        (edited(BUNDLE, dsseEnvelope=None, messageSignature={}), "no envelope"),
        (edited(BUNDLE, verificationMaterial=1), "expected an object"),
    ],
    ids=count(),
)
def test_malformed_bundles(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidSignature, match=problem):
        SigstoreBundle.parse(raw)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(json.loads(BUNDLE) | json.loads(ENVELOPE), JSON)))
def test_any_json_parses_or_is_rejected(document: dict[str, Any]) -> None:
    raw = json.dumps({**json.loads(BUNDLE), **json.loads(ENVELOPE), **document}).encode()
    for parse in (SigstoreBundle.parse, Envelope.parse, SimpleSigning.parse, lambda raw: Statement.parse(raw, DIGEST)):
        try:
            parse(raw)
        except InvalidSignature:
            continue
