"""``--require-signature`` of commands that add bundles and validate catalogs."""

from __future__ import annotations

import json
import re
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.supply.sign.sign import Signer
from tests.kit.bundles import bundle_image, push_image, resolve_digest
from tests.kit.signing import private_key

if TYPE_CHECKING:
    import subprocess

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

KEY = ("--require-signature", "cosign.pub")


@pytest.fixture
def site(opm_http: Opm, registry: Registry, request: pytest.FixtureRequest) -> tuple[Opm, str, str]:
    """Push two bundles, of which the first is signed, and write the public key; return the images."""
    key = private_key("ecdsa")
    (opm_http.directory / "cosign.pub").write_bytes(key.public_key.pem)
    name = re.sub("[^a-z0-9]+", "-", request.node.name).strip("-")
    prefix = f"{registry.host}/require-{name}"
    signed, unsigned = (f"{prefix}/{name}:1.0.0" for name in ("signed", "unsigned"))
    for image in (signed, unsigned):
        push_image(image, bundle_image(image.rpartition("/")[2].partition(":")[0], "1.0.0", opm_http.directory))
    repository = RegistryClient(RegistryOptions(plain_http=True)).target(Reference.parse(signed))
    Signer(key).sign(repository, repository.resolve("1.0.0"), repository.name)
    return opm_http, signed, unsigned


def test_index_add(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    (opm.directory / "catalog").mkdir()
    add = ("index", "add", "-f", "catalog", *KEY, "--bundles")
    failed = opm.attempt(*add, f"{signed},{unsigned}")
    assert failed.returncode == 1
    assert "unsigned@sha256:" in failed.stderr
    assert ": no signature found\n  hint: create one with 'opm image sign'" in failed.stderr
    assert not list((opm.directory / "catalog").iterdir())
    opm(*add, signed)
    assert opm("alpha", "list", "bundles", "catalog").split()[-1] == signed


def test_index_update(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    (opm.directory / "catalog").mkdir()
    update = ("index", "update", "-f", "catalog", *KEY, "--add")
    assert "no signature found" in opm.attempt(*update, unsigned).stderr
    assert not list((opm.directory / "catalog").iterdir())
    opm(*update, signed)


def test_permissive_add_does_not_accept_unsigned_bundles(site: tuple[Opm, str, str]) -> None:
    opm, _, unsigned = site
    failed = opm.attempt("registry", "add", "-b", unsigned, "--permissive", "--database", "index.db", *KEY)
    assert failed.returncode == 1
    assert not (opm.directory / "index.db").exists()


def test_directories_have_no_signatures(site: tuple[Opm, str, str]) -> None:
    opm = site[0]
    failed = opm.attempt("registry", "add", "-b", "./bundle", "--database", "index.db", *KEY)
    assert "./bundle: directories have no signatures\n  hint: " in failed.stderr


def test_policy_file(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    rule = {"type": "sigstoreSigned", "keyPath": "cosign.pub", "signedIdentity": {"type": "matchRepository"}}
    scopes = {signed.rpartition("/")[0]: [rule], unsigned.rpartition(":")[0]: [{"type": "insecureAcceptAnything"}]}
    document = {"default": [{"type": "reject"}], "transports": {"docker": scopes}}
    (opm.directory / "policy.json").write_text(json.dumps(document))
    required = ("--require-signature", "policy.json")
    opm("registry", "add", "-b", f"{signed},{unsigned}", "--database", "index.db", *required)
    (opm.directory / "policy.json").write_text(json.dumps({**document, "transports": {}}))
    failed = opm.attempt("registry", "add", "-b", signed, "--database", "other.db", *required)
    assert "rejected by policy.json.default[0]" in failed.stderr


def test_validate(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    (opm.directory / "catalog").mkdir()
    opm("index", "add", "-f", "catalog", "--bundles", f"{signed},{unsigned}")
    failed = opm.attempt("validate", "catalog", *KEY, "-o", "json")
    assert failed.returncode == 1
    (finding,) = json.loads(failed.stdout)["findings"]
    assert finding["rule"] == "GATE-SIGNATURE"
    assert finding["bundle"] == "unsigned.v1.0.0"
    assert finding["message"].endswith(": no signature found")
    opm("index", "rm", "-f", "catalog", "-o", "unsigned")
    assert opm("validate", "catalog", *KEY) == ""


ACCEPT, REJECT = {"type": "insecureAcceptAnything"}, {"type": "reject"}
POLICY = ("--require-signature", "policy.json")


def signed_as(name: str = "") -> dict[str, Any]:
    """Return the requirement of a signature for a repository, by default that of the image."""
    identity = {"type": "exactRepository", "dockerRepository": name} if name else {"type": "matchRepository"}
    return {"type": "sigstoreSigned", "keyPath": "cosign.pub", "signedIdentity": identity}


def write_policy(opm: Opm, scopes: dict[str, Any], *, transport: str = "docker", default: object = ACCEPT) -> None:
    document = {"default": [default], "transports": {transport: {name: [rule] for name, rule in scopes.items()}}}
    (opm.directory / "policy.json").write_text(json.dumps(document))


def sign(image: str) -> None:
    reference = Reference.parse(image)
    repository = RegistryClient(RegistryOptions(plain_http=True)).target(reference)
    Signer(private_key("ecdsa")).sign(repository, repository.resolve(reference.identifier), repository.name)


def add(opm: Opm, bundle: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return opm.attempt("registry", "add", "-b", bundle, "--database", "index.db", *(flags or POLICY))


def recorded_images(opm: Opm) -> list[str]:
    return [line.split()[-1] for line in opm("alpha", "list", "bundles", "index.db").splitlines()[1:]]


@pytest.mark.parametrize("setting", ["aliases", "search"])
def test_short_names_are_resolved_before_they_are_matched(site: tuple[Opm, str, str], setting: str) -> None:
    opm, _, unsigned = site
    host, _, path = unsigned.removesuffix(":1.0.0").partition("/")
    conf = opm.directory / "registries.conf"
    conf.write_text(
        f'[aliases]\n"{path}" = "{host}/{path}"\n'
        if setting == "aliases"
        else f'unqualified-search-registries = ["{host}"]\n'
    )
    opm.env["CONTAINERS_REGISTRIES_CONF"] = str(conf)
    write_policy(opm, {host: REJECT})
    failed = add(opm, f"{path}:1.0.0")
    assert failed.returncode == 1
    assert f"{host}/{path}@sha256:" in failed.stderr
    assert f"rejected by policy.json.transports.docker.{host}[0]" in failed.stderr
    write_policy(opm, {host: signed_as()})
    assert "no signature found" in add(opm, f"{path}:1.0.0").stderr
    # The recorded name is resolved and matched as well, and the full name is recorded.
    assert "no signature found" in add(opm, f"{unsigned}={path}:1.0.0").stderr
    assert not (opm.directory / "index.db").exists()
    sign(unsigned)
    assert add(opm, f"{path}:1.0.0").returncode == 0
    assert recorded_images(opm) == [unsigned]


def test_hosts_are_compared_regardless_of_case_and_default_port(site: tuple[Opm, str, str]) -> None:
    opm, _, unsigned = site
    unsigned = unsigned.replace("127.0.0.1", "localhost")
    host = unsigned.partition("/")[0]
    write_policy(opm, {host: REJECT})
    assert "rejected by" in add(opm, unsigned.replace("localhost", "LOCALHOST")).stderr
    write_policy(opm, {host.replace("localhost", "LocalHost"): REJECT})
    assert "rejected by" in add(opm, unsigned).stderr
    write_policy(opm, {"quay.example.com/me": REJECT})
    assert "rejected by" in add(opm, f"{unsigned}=Quay.Example.com:443/me/unsigned:1").stderr
    assert not (opm.directory / "index.db").exists()


def test_mirrors_are_not_part_of_the_name(site: tuple[Opm, str, str]) -> None:
    opm, signed, _ = site
    prefix = signed.rpartition("/")[0]
    conf = opm.directory / "registries.conf"
    conf.write_text(
        f'[[registry]]\nprefix = "quay.example.com/me"\nlocation = "{prefix}"\n'
        f'[[registry]]\nprefix = "quay.example.com/you"\nlocation = "{prefix}/missing"\n'
        f'[[registry.mirror]]\nlocation = "{prefix}"\ninsecure = true\n'
    )
    opm.env["CONTAINERS_REGISTRIES_CONF"] = str(conf)
    for image in ("quay.example.com/me/unsigned:1.0.0", "quay.example.com/you/unsigned:1.0.0"):
        write_policy(opm, {"quay.example.com": REJECT})
        assert "rejected by" in add(opm, image).stderr
        write_policy(opm, {"quay.example.com": signed_as()})
        assert "no signature found" in add(opm, image).stderr
    # The signature in the mirror names the mirror, which does not match the name of the image.
    assert (
        f"1 for the repository {signed.removesuffix(':1.0.0')}" in add(opm, "quay.example.com/you/signed:1.0.0").stderr
    )
    write_policy(opm, {"quay.example.com": signed_as(signed.removesuffix(":1.0.0"))})
    assert add(opm, "quay.example.com/you/signed:1.0.0").returncode == 0


def test_recorded_name_must_satisfy_the_policy(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    protected = signed.removesuffix("signed:1.0.0") + "protected:1.0.0"
    write_policy(opm, {protected.removesuffix(":1.0.0"): signed_as()})
    # The protected image cannot be found, so that only a signature can show that it is the image that is read.
    assert f"{protected.removesuffix(':1.0.0')}@sha256:" in add(opm, f"{unsigned}={protected}").stderr
    assert "1 for the repository" in add(opm, f"{signed}={protected}").stderr
    write_policy(opm, {protected.removesuffix(":1.0.0"): signed_as(signed.removesuffix(":1.0.0"))})
    assert add(opm, f"{signed}={protected}").returncode == 0
    assert recorded_images(opm) == [protected]


@pytest.mark.parametrize("by", ["tag", "digest"])
@pytest.mark.parametrize("flags", [KEY, POLICY], ids=["key", "policy"])
def test_recorded_name_must_refer_to_the_image_that_is_read(
    site: tuple[Opm, str, str], by: str, flags: tuple[str, ...]
) -> None:
    opm, signed, unsigned = site
    write_policy(opm, {})
    recorded = unsigned
    if by == "digest":
        recorded = f"quay.example.com/me/unsigned@{resolve_digest(unsigned)}"
    failed = add(opm, f"{signed}={recorded}", *flags)
    assert failed.returncode == 1
    assert f"{recorded}: names another image than {signed.removesuffix(':1.0.0')}@sha256:" in failed.stderr
    same = f"{signed.removesuffix(':1.0.0')}@{resolve_digest(signed)}"
    assert add(opm, f"{signed}={same}", *flags).returncode == 0
    assert recorded_images(opm) == [same]


@pytest.mark.parametrize("rejected", ["tag", "digest"])
def test_tag_and_digest_of_one_image_must_satisfy_the_policy(site: tuple[Opm, str, str], rejected: str) -> None:
    opm, signed, _ = site
    by_digest = f"{signed.removesuffix(':1.0.0')}@{resolve_digest(signed)}"
    write_policy(opm, {signed if rejected == "tag" else by_digest: REJECT})
    assert "rejected by" in add(opm, f"{signed}={by_digest}").stderr
    assert "rejected by" in add(opm, f"{by_digest}={signed}").stderr


def test_signature_next_to_the_recorded_image(site: tuple[Opm, str, str]) -> None:
    opm, signed, _ = site
    copy = signed.removesuffix("signed:1.0.0") + "copy:1.0.0"
    opm("image", "copy", signed, copy)
    write_policy(opm, {signed.removesuffix(":1.0.0"): signed_as()}, default=ACCEPT)
    assert add(opm, f"{copy}={signed}").returncode == 0


def test_signature_next_to_the_recorded_image_of_a_layout(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    for image in (signed, unsigned):
        opm("image", "copy", image, f"oci:{image.rpartition('/')[2]}")
    write_policy(opm, {}, default=signed_as())
    assert add(opm, f"oci:signed:1.0.0={signed}").returncode == 0
    assert "no signature found" in add(opm, f"oci:unsigned:1.0.0={unsigned}").stderr
    assert "names another image" in add(opm, f"oci:unsigned:1.0.0={signed}").stderr


@pytest.mark.parametrize("kind", ["oci", "oci-archive"])
def test_layouts_have_the_name_that_is_recorded(site: tuple[Opm, str, str], kind: str) -> None:
    opm, signed, _ = site
    layout = f"oci:{opm.directory}/layout:1"
    opm("image", "copy", signed, layout)
    pem = private_key("ecdsa").key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (opm.directory / "key.pem").write_bytes(pem)
    opm("image", "sign", "--key", "key.pem", "--sign-container-identity", "quay.example.com/me/staging", layout)
    source = layout
    if kind == "oci-archive":
        with tarfile.open(opm.directory / "layout.tar", "w") as archive:
            for entry in sorted((opm.directory / "layout").iterdir()):
                archive.add(entry, entry.name)
        source = f"oci-archive:{opm.directory}/layout.tar:1"

    def attempt(rule: dict[str, Any], bundle: str) -> str:
        write_policy(opm, {"": rule}, transport=kind, default=rule if "=" in bundle else REJECT)
        return add(opm, bundle).stderr

    wrong = "1 for the repository quay.example.com/me/staging"
    assert wrong in attempt(signed_as("quay.example.com/me/prod"), source)
    assert "requires the name of the image in the signature" in attempt(signed_as(), source)
    assert wrong in attempt(signed_as(), f"{source}=quay.example.com/me/prod:1")
    assert wrong in attempt(signed_as("quay.example.com/me/prod"), f"{source}=quay.example.com/me/staging:1")
    assert not (opm.directory / "index.db").exists()
    assert attempt(signed_as(), f"{source}=quay.example.com/me/staging:1") == ""
    assert recorded_images(opm) == ["quay.example.com/me/staging:1"]


def test_scopes_of_layouts_are_real_paths(site: tuple[Opm, str, str]) -> None:
    opm, _, unsigned = site
    opm("image", "copy", unsigned, "oci:outside/layout:1")
    (opm.directory / "trusted").mkdir()
    (opm.directory / "trusted" / "link").symlink_to(opm.directory / "outside")
    write_policy(opm, {str(opm.directory.resolve() / "trusted"): ACCEPT}, transport="oci", default=REJECT)
    for source in ("oci:trusted/link/layout:1", "oci:trusted/../outside/layout:1"):
        assert "rejected by policy.json.default[0]" in add(opm, source).stderr


@pytest.mark.parametrize("command", [("index", "add", "-b"), ("index", "update", "--add")])
@pytest.mark.parametrize("dry_run", [("--dry-run",), ()], ids=["dry run", "build"])
def test_index_image_must_satisfy_the_policy(
    site: tuple[Opm, str, str], command: tuple[str, ...], dry_run: tuple[str, ...]
) -> None:
    opm, signed, unsigned = site
    prefix = signed.removesuffix("/signed:1.0.0")
    catalog = f"{prefix}/catalog:1"
    opm("index", "add", "-b", unsigned, "-i", "scratch", "-t", catalog, "--to-fbc", "--push")
    write_policy(opm, {prefix: signed_as()})
    target = ("-f", catalog, "-t", f"{prefix}/catalog:2", "--push", *dry_run)
    failed = opm.attempt(*command, signed, *target, *POLICY)
    assert failed.returncode == 1
    assert f"{prefix}/catalog@sha256:" in failed.stderr
    assert "no signature found" in failed.stderr
    opm(*command, signed, *target, *KEY)
    sign(catalog)
    opm(*command, signed, *target, *POLICY)


@pytest.mark.parametrize("transport", ["docker", "containers-storage"])
def test_index_in_the_embedded_store(site: tuple[Opm, str, str], transport: str) -> None:
    opm, signed, _ = site
    opm.env["XDG_DATA_HOME"] = str(opm.directory / "data")
    opm("index", "add", "-b", signed, "-i", "scratch", "-t", "quay.example.com/me/catalog:1", "--to-fbc")
    update = ("index", "add", "-b", signed, "-f", "store:quay.example.com/me/catalog:1", "--dry-run", "--skip-present")
    write_policy(opm, {"": REJECT} if transport != "docker" else {}, transport=transport)
    opm(*update, *POLICY)
    write_policy(opm, {signed.rpartition("/")[0]: ACCEPT}, default=signed_as())
    assert "signatures are only supported in registries" in opm.attempt(*update, *POLICY).stderr


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"default": [ACCEPT], "transport": {}}, "policy.json.transport: unknown field; expected default, transports"),
        ({"default": [{**ACCEPT, "keyPath": "cosign.pub"}]}, "policy.json.default[0].keyPath: unknown field"),
        ({"default": [{**signed_as(), "keyType": "GPG"}]}, "policy.json.default[0].keyType: unknown field"),
        ({"default": [{**signed_as(), "rekorPublicKeyDatas": ["x"]}]}, "default[0].rekorPublicKeyDatas: unsupported"),
        ({"default": [{**signed_as(), "signedIdentity": {"type": "matchExact", "prefix": "x"}}]}, "prefix: unknown"),
        ({"default": [ACCEPT], "transports": {"docker": {"me/app": [REJECT]}}}, "docker.me/app: invalid scope"),
        (
            '{"default": [{"type": "reject"}], "default": [{"type": "insecureAcceptAnything"}]}',
            "duplicate key 'default'",
        ),
    ],
)
def test_policies_are_read_strictly(opm: Opm, policy: object, problem: str) -> None:
    content = policy if isinstance(policy, str) else json.dumps(policy)
    (opm.directory / "policy.json").write_text(content)
    (opm.directory / "cosign.pub").write_bytes(private_key("ecdsa").public_key.pem)
    (opm.directory / "catalog").mkdir()
    (opm.directory / "catalog" / "catalog.json").write_text('{"schema": "olm.package", "name": "x"}')
    for command in (
        ("registry", "add", "-b", "quay.example.com/me/app:1", "--database", "index.db"),
        ("index", "add", "-b", "quay.example.com/me/app:1", "-f", "catalog"),
        ("index", "update", "--add", "quay.example.com/me/app:1", "-f", "catalog"),
        ("validate", "catalog"),
    ):
        failed = opm.attempt(*command, *POLICY)
        assert failed.returncode == 1
        assert problem in failed.stderr
        assert "\n  hint: " in failed.stderr


def test_validate_resolves_short_names(site: tuple[Opm, str, str]) -> None:
    opm, _, unsigned = site
    host, _, path = unsigned.removesuffix(":1.0.0").partition("/")
    (opm.directory / "registries.conf").write_text(f'[aliases]\n"{path}" = "{host}/{path}"\n')
    opm.env["CONTAINERS_REGISTRIES_CONF"] = str(opm.directory / "registries.conf")
    (opm.directory / "catalog").mkdir()
    opm("index", "add", "-f", "catalog", "--bundles", f"{path}:1.0.0")
    write_policy(opm, {host: REJECT})
    failed = opm.attempt("validate", "catalog", *POLICY, "-o", "json")
    (finding,) = json.loads(failed.stdout)["findings"]
    assert f"rejected by policy.json.transports.docker.{host}[0]" in finding["message"]
