"""Signature policies, names and transports, each compared with containers/image, the library of podman and CRI-O.

The program that asks containers/image is built with Go. Intended differences are marked in the tables.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.registry_config import RegistrySettings
from opmkit.imagetools.signatures.documents import SignatureFormat
from opmkit.imagetools.signatures.errors import InvalidKey, InvalidSignaturePolicy, VerificationFailed
from opmkit.imagetools.signatures.policy import SignaturePolicy
from opmkit.imagetools.store import LayoutRepository
from opmkit.supply.sign.sign import Signer
from tests.kit.content import put_image
from tests.kit.signing import Question, ask, private_key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

pytestmark = pytest.mark.timeout(900)  # building takes a minute, the first time

KEY, OTHER_KEY = private_key("ecdsa"), private_key("rsa")
ACCEPT, REJECT = {"type": "insecureAcceptAnything"}, {"type": "reject"}
SIGNED = {"type": "sigstoreSigned", "keyPath": "KEY"}
ALIAS = "short/own"
REMAPPED = "remapped.example.com/policy"


@dataclass(frozen=True)
class Site:
    """A registry with images signed in several ways, whose names begin with ``prefix``, and the settings to read it."""

    directory: Path
    registry: Registry

    @property
    def host(self) -> str:
        """The host of the registry, as a name with upper- and lower-case letters."""
        return self.registry.host.replace("127.0.0.1", "localhost")

    @property
    def prefix(self) -> str:
        return f"{self.host}/policy"

    @cached_property
    def client(self) -> RegistryClient:
        environ = {"CONTAINERS_REGISTRIES_CONF": str(self.directory / "registries.conf")}
        return RegistryClient(RegistryOptions(plain_http=True), settings=RegistrySettings(environ))

    def fill(self, text: str) -> str:
        """Replace names of tables by those of this site."""
        for name, value in {
            "PREFIX": self.prefix,
            "HOST": self.host,
            "DIR": str(self.directory.resolve()),
            "KEYFILE": str(self.directory / "key.pub"),
            "DIGEST": self.digest,
            "UPPER": self.host.upper(),
        }.items():
            text = text.replace(name, value)
        return text

    @cached_property
    def digest(self) -> str:
        return self.client.target(Reference.parse(f"{self.prefix}/own")).resolve("1").digest

    def policy(self, number: int, content: str) -> Path:
        path = self.directory / f"policy-{number}.json"
        path.write_text(self.fill(content.replace('"KEY"', '"KEYFILE"')))
        return path

    def is_accepted(self, policy: Path, image: str) -> bool:
        required = SignaturePolicy.load(str(policy))
        try:
            required.verify(parse_image_reference(image.removeprefix("docker://")), self.client)
        except VerificationFailed:
            return False
        return True


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Site:
    directory = tmp_path_factory.mktemp("policies")
    site = Site(directory, registry)
    (directory / "key.pub").write_bytes(KEY.public_key.pem)
    (directory / "registries.yaml").write_text("default-docker:\n  use-sigstore-attachments: true\n")
    (directory / "registries.conf").write_text(
        f'[aliases]\n"{ALIAS}" = "{site.prefix}/own"\n'
        f'[[registry]]\nprefix = "mirrored.example.com"\nlocation = "{site.host}/missing"\ninsecure = true\n'
        f'[[registry.mirror]]\nlocation = "{site.prefix}"\ninsecure = true\n'
    )
    identities = {
        "own": [(KEY, f"{site.prefix}/own")],
        "tagged": [(KEY, f"{site.prefix}/tagged:1")],
        "remapped": [(KEY, f"{REMAPPED}/remapped:1")],
        "stolen": [(KEY, f"{site.prefix}/own"), (KEY, "quay.example.com/me/other:1")],
        "others": [(OTHER_KEY, f"{site.prefix}/others:1")],
        "unsigned": [],
        "bundle": [],
    }
    for name, signatures in identities.items():
        repository = site.client.target(Reference.parse(f"{site.prefix}/{name}"))
        image = put_image(repository, "1", name.encode()).descriptor
        put_image(repository, "latest", name.encode())
        for key, identity in signatures:
            Signer(key).sign(repository, image, identity)
        if name == "bundle":
            Signer(KEY, SignatureFormat.BUNDLE).sign(repository, image, f"{site.prefix}/{name}")
        put_image(LayoutRepository(directory / "layouts" / name), "1", name.encode())
    return site


def scoped(scopes: dict[str, object], transport: str = "docker") -> dict[str, object]:
    return {"default": [REJECT], "transports": {transport: {name: [rule] for name, rule in scopes.items()}}}


def identity(kind: str, **fields: str) -> dict[str, object]:
    return {"default": [{**SIGNED, "signedIdentity": {"type": kind, **fields}}]}


IDENTITIES: tuple[dict[str, object], ...] = (
    {"default": [SIGNED]},
    {"default": [ACCEPT]},
    {"default": [REJECT]},
    {"default": [ACCEPT, REJECT]},
    identity("matchExact"),
    identity("matchRepoDigestOrExact"),
    identity("matchRepository"),
    identity("exactReference", dockerReference="PREFIX/tagged:1"),
    identity("exactReference", dockerReference="PREFIX/tagged:2"),
    identity("exactRepository", dockerRepository="PREFIX/own"),
    identity("exactRepository", dockerRepository="quay.example.com/me/other"),
    identity("remapIdentity", prefix="PREFIX", signedPrefix=REMAPPED),
    identity("remapIdentity", prefix="HOST", signedPrefix="remapped.example.com"),
    identity("remapIdentity", prefix="HOST/pol", signedPrefix=REMAPPED),
)
IMAGES = ("own", "tagged", "remapped", "stolen", "others", "unsigned", "bundle")
NAMES = ("docker://PREFIX/{}:1", "docker://PREFIX/{}", "docker://mirrored.example.com/{}:1", "oci:DIR/layouts/{}:1")
SCOPES: tuple[tuple[dict[str, object], str], ...] = (
    (scoped({"": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"": ACCEPT}), "oci:DIR/layouts/own:1"),
    (scoped({"": ACCEPT}, "oci"), "docker://PREFIX/own:1"),
    (scoped({"": ACCEPT}, "oci"), "oci:DIR/layouts/own:1"),
    (scoped({"HOST": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"PREFIX": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"PREFIX/own": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"PREFIX/ow": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"PREFIX/own:1": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"PREFIX/own:2": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"PREFIX/own:1": ACCEPT}), "docker://PREFIX/own@DIGEST"),
    (scoped({"PREFIX/own@DIGEST": ACCEPT}), "docker://PREFIX/own@DIGEST"),
    (scoped({"PREFIX/own@DIGEST": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"PREFIX": ACCEPT, "PREFIX/own": REJECT}), "docker://PREFIX/own:1"),
    (scoped({"PREFIX": ACCEPT, "PREFIX/own:1": REJECT}), "docker://PREFIX/own:1"),
    (scoped({"HOST": REJECT, "PREFIX/own": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"localhost": ACCEPT}), "docker://PREFIX/own:1"),
    (scoped({"mirrored.example.com": ACCEPT}), "docker://mirrored.example.com/own:1"),
    (scoped({"*.example.com": ACCEPT}), "docker://mirrored.example.com/own:1"),
    (scoped({"*.com": ACCEPT}), "docker://mirrored.example.com/own:1"),
    (scoped({"*.mirrored.example.com": ACCEPT}), "docker://mirrored.example.com/own:1"),
    (scoped({"*.com": ACCEPT, "*.example.com": REJECT}), "docker://mirrored.example.com/own:1"),
    (scoped({"*.com": REJECT, "mirrored.example.com": ACCEPT}), "docker://mirrored.example.com/own:1"),
    (scoped({"PREFIX": ACCEPT}), "docker://mirrored.example.com/own:1"),
    (scoped({"PREFIX": REJECT, "mirrored.example.com": ACCEPT}), "docker://mirrored.example.com/own:1"),
    (scoped({"PREFIX": ACCEPT}), f"{ALIAS}:1"),
    (scoped({"PREFIX/own:1": ACCEPT}), f"{ALIAS}:1"),
    (scoped({"docker.io/short": ACCEPT}), f"{ALIAS}:1"),
    (scoped({"docker.io/short": REJECT, "": ACCEPT}), f"{ALIAS}:1"),
    (scoped({"PREFIX": SIGNED}), f"{ALIAS}:1"),
    (scoped({"DIR": ACCEPT}, "oci"), "oci:DIR/layouts/own:1"),
    (scoped({"DIR/layouts/own": ACCEPT}, "oci"), "oci:DIR/layouts/own:1"),
    (scoped({"DIR/layouts/ow": ACCEPT}, "oci"), "oci:DIR/layouts/own:1"),
    (scoped({"DIR/layouts/own": ACCEPT}, "oci"), "oci:DIR/layouts/others/../own:1"),
    (scoped({"DIR/layouts/others": ACCEPT}, "oci"), "oci:DIR/layouts/others/../own:1"),
)
CASES = (
    *((policy, name.format(image)) for policy, name, image in product(IDENTITIES, NAMES, IMAGES)),
    *((policy, "docker://PREFIX/own@DIGEST") for policy in IDENTITIES),
    *SCOPES,
)


def test_names_and_signatures(site: Site, gopolicy: Path) -> None:
    policies = [site.policy(number, json.dumps(policy)) for number, (policy, _) in enumerate(CASES)]
    images = [site.fill(image) for _, image in CASES]
    settings = str(site.directory), str(site.directory / "registries.conf")
    questions = [Question(str(policy), image, *settings) for policy, image in zip(policies, images, strict=True)]
    answers = ask(gopolicy, questions)
    accepted = 0
    for (content, image), policy, name, answer in zip(CASES, policies, images, answers, strict=True):
        assert site.is_accepted(policy, name) is answer["accepted"], (content, image, answer)
        accepted += answer["accepted"]
    assert 40 < accepted < len(CASES) - 40


@pytest.mark.parametrize(
    ("scopes", "image", "accepted"),
    [
        ({"HOST": REJECT, "": ACCEPT}, "UPPER/policy/own:1", False),
        ({"UPPER/policy": REJECT, "": ACCEPT}, "HOST/policy/own:1", False),
        ({"MIRRORED.example.com": SIGNED, "": ACCEPT}, "mirrored.example.com/unsigned:1", False),
        ({"*.EXAMPLE.com": REJECT, "": ACCEPT}, "mirrored.example.com/unsigned:1", False),
        ({"mirrored.example.com:443": REJECT, "": ACCEPT}, "mirrored.example.com/unsigned:1", False),
        ({"PREFIX/own@DIGEST": REJECT, "": ACCEPT}, "PREFIX/own:1@DIGEST", False),
        ({"PREFIX": {**SIGNED, "signedIdentity": {"type": "matchRepository"}}}, "UPPER/policy/own:1", True),
        ({"PREFIX": {**SIGNED, "signedIdentity": {"type": "matchRepository"}}}, "UPPER/policy/unsigned:1", False),
    ],
)
def test_names_that_containers_image_distinguishes(
    site: Site, scopes: dict[str, object], image: str, *, accepted: bool
) -> None:
    policy = site.policy(0, json.dumps(scoped(scopes)))
    assert site.is_accepted(policy, site.fill(image)) is accepted


DEFAULT = f'"default": [{json.dumps(ACCEPT)}]'
KEY_DATA = json.dumps({"type": "sigstoreSigned", "keyData": base64.b64encode(KEY.public_key.pem).decode()})


def required(*fields: str) -> str:
    """Return a policy with a requirement of a signature with these fields."""
    return f'{{"default": [{{"type": "sigstoreSigned", {", ".join(fields)}}}]}}'


def named(fields: str) -> str:
    return required('"keyPath": "KEY"', f'"signedIdentity": {fields}')


VALID_POLICIES = (
    f"{{{DEFAULT}}}",
    f'{{{DEFAULT}, "transports": {{}}}}',
    f'{{{DEFAULT}, "transports": {{"docker": {{}}, "docker-daemon": {{"": [{{"type": "reject"}}]}}}}}}',
    f'{{{DEFAULT}, "transports": {{"oci": {{"/a/b": [{{"type": "reject"}}]}}}}}}',
    f'{{{DEFAULT}, "transports": {{"atomic": {{"": [{{"type": "reject"}}]}}}}}}',
    f'{{"default": [{KEY_DATA}]}}',
    required('"keyPath": "KEY"'),
    required('"keyPaths": ["KEY", "KEY"]'),
    named('{"type": "matchExact"}'),
    named('{"type": "exactReference", "dockerReference": "quay.io/me/app:1"}'),
    named('{"type": "exactRepository", "dockerRepository": "quay.io/me/app"}'),
    named('{"type": "remapIdentity", "prefix": "quay.io", "signedPrefix": "example.com:5000/me"}'),
)
INVALID_POLICIES = (
    "",
    "{",
    "{}",
    "[]",
    f"{{{DEFAULT}}} {{}}",
    f"{{{DEFAULT}, {DEFAULT}}}",
    f'{{{DEFAULT}, "transport": {{}}}}',
    f'{{{DEFAULT}, "Transports": {{}}}}',
    f'{{{DEFAULT}, "transports": null}}',
    f'{{{DEFAULT}, "transports": []}}',
    f'{{{DEFAULT}, "transports": {{"docker": []}}}}',
    f'{{{DEFAULT}, "transports": {{"docker": null}}}}',
    f'{{{DEFAULT}, "transports": {{"docker": {{"quay.io": []}}}}}}',
    f'{{{DEFAULT}, "transports": {{"docker": {{"quay.io": null}}}}}}',
    f'{{{DEFAULT}, "transports": {{"docker": {{"quay.io": {{"type": "reject"}}}}}}}}',
    f'{{{DEFAULT}, "transports": {{"docker": {{}}, "docker": {{}}}}}}',
    f'{{{DEFAULT}, "transports": {{"docker": {{"a.b": [{{"type": "reject"}}], "a.b": [{{"type": "reject"}}]}}}}}}',
    f'{{{DEFAULT}, "transports": {{"oci": {{"a/b": [{{"type": "reject"}}]}}}}}}',
    f'{{{DEFAULT}, "transports": {{"oci": {{"/": [{{"type": "reject"}}]}}}}}}',
    f'{{{DEFAULT}, "transports": {{"oci": {{"/a/../b": [{{"type": "reject"}}]}}}}}}',
    f'{{{DEFAULT}, "transports": {{"oci": {{"//a": [{{"type": "reject"}}]}}}}}}',
    f'{{{DEFAULT}, "transports": {{"oci-archive": {{"/a/": [{{"type": "reject"}}]}}}}}}',
    '{"default": null}',
    '{"default": {}}',
    '{"default": []}',
    '{"default": [null]}',
    '{"default": ["reject"]}',
    '{"default": [{}]}',
    '{"default": [{"type": null}]}',
    '{"default": [{"type": ["reject"]}]}',
    '{"default": [{"type": "Reject"}]}',
    '{"default": [{"type": "reject", "type": "insecureAcceptAnything"}]}',
    '{"default": [{"type": "reject", "keyPath": "KEY"}]}',
    '{"default": [{"type": "insecureAcceptAnything", "keyPath": "KEY"}]}',
    '{"default": [{"type": "insecureAcceptAnything", "comment": ""}]}',
    '{"default": [{"type": "sigstoreSigned"}]}',
    required('"keyPath": null'),
    required('"keyPath": 1'),
    required('"keyPath": ["KEY"]'),
    required('"keyPaths": []'),
    required('"keyPaths": "KEY"'),
    required('"keyDatas": []'),
    required('"keyData": "?"'),
    required('"keyPath": "KEY"', '"keyPaths": ["KEY"]'),
    required('"keyPath": "KEY"', '"keyPath": "KEY"'),
    required('"keyPath": "KEY"', '"keypath": "KEY"'),
    required('"keyPath": "KEY"', '"SignedIdentity": {"type": "matchExact"}'),
    required('"keyPath": "KEY"', '"rekorPublicKeyDatas": []'),
    named("null"),
    named("{}"),
    named('"matchExact"'),
    named('{"type": "matchExact", "dockerReference": "quay.io/me/app:1"}'),
    named('{"type": "matchRepository", "type": "matchRepository"}'),
    named('{"type": "matchrepository"}'),
    named('{"type": "exactReference"}'),
    named('{"type": "exactReference", "dockerReference": "quay.io/me/app"}'),
    named('{"type": "exactReference", "dockerReference": "docker://quay.io/me/app:1"}'),
    named('{"type": "exactReference", "dockerReference": "quay.io/me/app:1", "dockerRepository": "quay.io/me/app"}'),
    named('{"type": "exactRepository", "dockerRepository": "quay.io/me/APP"}'),
    named('{"type": "exactRepository", "dockerRepository": ""}'),
    named('{"type": "remapIdentity", "prefix": "quay.io"}'),
    named('{"type": "remapIdentity", "prefix": "", "signedPrefix": "example.com"}'),
    named('{"type": "remapIdentity", "prefix": "quay.io/", "signedPrefix": "example.com"}'),
)
# containers/image accepts these policies: it supports what they require, or they have scopes that contain no image.
UNSUPPORTED_POLICIES = (
    required('"keyPath": "KEY"', '"rekorPublicKeyDatas": ["eA=="]'),
    required('"keyPath": "KEY"', '"rekorPublicKeyData": "eA=="'),
    required('"keyPath": "KEY"', '"rekorPublicKeyPath": "x"'),
    required('"keyPath": "KEY"', '"rekorPublicKeyPath": ""'),
    required('"keyPath": "env://SIGNING_KEY"'),
    '{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "x"}]}',
    f'{{{DEFAULT}, "transports": {{"dokcer": {{"quay.io": [{{"type": "reject"}}]}}}}}}',
    *(
        f'{{{DEFAULT}, "transports": {{"docker": {{"{scope}": [{{"type": "reject"}}]}}}}}}'
        for scope in (
            "me/app",
            "quay.io/me/",
            "https://quay.io",
            "docker://quay.io/me",
            "quay.io/me/*",
            "*.io:443",
            "*",
        )
    ),
    f'{{{DEFAULT}, "transports": {{"docker": {{"a.b": [{{"type": "reject"}}], "A.B:443": [{{"type": "reject"}}]}}}}}}',
)


def is_valid(path: Path) -> bool:
    try:
        SignaturePolicy.load(str(path))
    except (InvalidSignaturePolicy, InvalidKey):
        return False
    return True


@pytest.mark.parametrize(
    ("policies", "valid"),
    [(VALID_POLICIES, True), (INVALID_POLICIES, False), (UNSUPPORTED_POLICIES, False)],
    ids=["valid", "invalid", "unsupported"],
)
def test_policies_are_read_strictly(site: Site, policies: tuple[str, ...], *, valid: bool) -> None:
    for content in policies:
        assert is_valid(site.policy(0, content)) is valid, content


def test_policies_of_the_machine_are_read_as_by_containers_image(site: Site) -> None:
    def is_read(content: str) -> bool:
        try:
            SignaturePolicy.parse(site.fill(content).encode(), "policy.json")
        except InvalidSignaturePolicy:
            return False
        return True

    *unsupported, twice = UNSUPPORTED_POLICIES  # the last one has the same scope in two spellings
    never_satisfied = required('"keyPath": "KEY"', '"rekorPublicKeyDatas": []')
    for content in (*VALID_POLICIES, *unsupported):
        assert is_read(content), content
    for content in (twice, *INVALID_POLICIES):
        assert is_read(content) is (content == never_satisfied), content


def test_containers_image_reads_policies_as_strictly(site: Site, gopolicy: Path) -> None:
    policies = (*VALID_POLICIES, *INVALID_POLICIES, *UNSUPPORTED_POLICIES)
    answers = ask(gopolicy, [Question(str(site.policy(number, text))) for number, text in enumerate(policies)])
    expected = [False] * len(VALID_POLICIES) + [True] * len(INVALID_POLICIES) + [False] * len(UNSUPPORTED_POLICIES)
    for content, answer, invalid in zip(policies, answers, expected, strict=True):
        assert answer["invalid"] is invalid, (content, answer)


@pytest.mark.parametrize("content", [b'{"default": NaN}', b'{"default": "\xff"}', b"{" * 100_000, b"\xff\xfe{\0"])
def test_content_that_is_not_json(site: Site, content: bytes) -> None:
    path = site.directory / "policy.json"
    path.write_bytes(content)
    with pytest.raises(ImageToolsError):
        SignaturePolicy.load(str(path))
