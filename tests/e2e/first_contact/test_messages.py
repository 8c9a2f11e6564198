"""Messages for realistic mistakes: subject, cause, and a hint that is valid for the command."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.installed import InstalledOpm
from tests.kit.opm import LAGOON, all_commands
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

NAME = "lagoon-operator"
LIST = "opm alpha list bundles"
NO_PATH = "no such file or directory, and not found as an image"
NEW = "oci:images/lagoon:0.2.0=quay.io/me/lagoon:0.2.0"
OLD = "oci:images/lagoon:0.1.0=quay.io/me/lagoon:0.1.0"
MANIFESTS = str(LAGOON / "0.1.0" / "manifests")


@dataclass(frozen=True)
class Mistake:
    """An invalid command line, and the subject, cause and hint that its error must contain."""

    line: str
    subject: str
    cause: str
    hint: str
    status: int = 1

    def __str__(self) -> str:
        return self.line.replace("/", "|")


MISTAKES = [
    # bundles
    Mistake("bundle validate nonexist", "nonexist:", NO_PATH, "check the path"),
    Mistake("bundle validate ./nonexist", "./nonexist", "no such directory", "manifests/"),
    Mistake("bundle validate index.db", "index.db", "is a file, not a bundle", "@index.db"),
    Mistake("bundle validate lagoon.tar", "lagoon.tar", "is a file, not a bundle", "oci-archive:lagoon.tar"),
    Mistake("bundle permissions lagoon.tar", "lagoon.tar:", "a file, not an image", "docker-archive:lagoon.tar"),
    Mistake("bundle validate", "", "no bundle", "--help"),
    Mistake("bundle validate bundle --profile opn", "opn", "", "opm"),
    Mistake("bundle validate bundle --output jsno", "jsno", "--output", "did you mean json?"),
    Mistake("bundle validate bundle -o yml", "yml", "optional validator", "--output"),
    Mistake("bundle validate -", "-", "standard input is not read", "path"),
    Mistake("bundle build -d nonexist -p x -c y -t x:1", "nonexist", "", "director"),
    Mistake("bundle build -d plain -t example.com/x:1", "plain", "package", "--package"),
    Mistake("bundle build -d plain -p x -t example.com/x:1", "channel", "", "--channels"),
    Mistake("bundle build -d empty -p x -c alpha -t example.com/x:1", "empty", "no files", "manifests"),
    Mistake("bundle build -d plain -p x -c alpha", "tag", "not set", "--tag"),
    Mistake("bundle build -d plain -p x -c alpha -t example.com/X:1", "example.com/X:1", "", "lower"),
    Mistake("bundle build bundle", "CONTEXT", "requires --file", "--directory bundle/manifests"),
    Mistake("bundle generate -d nonexist", "nonexist", "", "director"),
    Mistake("bundle unpack", "IMAGE", "Missing argument", "--help"),
    Mistake("bundle unpack oci:images/catalog:1", "oci:images/catalog:1", "index image", LIST),
    Mistake("bundle unpack oci:images/lagoon:9", "image 9", "not found", "0.1.0, 0.2.0"),
    Mistake("bundle unpack bundle", "bundle:", "a directory, not an image", "./bundle"),
    Mistake("bundle permissions bundle", "bundle:", "a directory, not an image", "./bundle"),
    Mistake("bundle permissions empty/", "empty/:", "a directory, not an image", "./empty/"),
    Mistake("bundle permissions images/lagoon", "images/lagoon:", "an OCI image layout", "oci:images/lagoon:TAG"),
    Mistake("bundle render bundle -n lagoon", "bundle:", "a directory, not an image", "./bundle"),
    Mistake("bundle extract bundle -c lagoon -n olm", "bundle:", "a directory, not an image", "./bundle"),
    Mistake("image pull ./bundle", "./bundle", "not an image in a registry", "opm bundle build --directory"),
    Mistake("image pull ./images/lagoon", "./images/lagoon", "not an image", "opm image copy oci:./images/lagoon:TAG"),
    Mistake("image inspect images/lagoon", "images/lagoon", "an OCI image layout", "oci:images/lagoon:TAG"),
    Mistake("image inspect bundle", "bundle", "a bundle directory, not an image", "opm bundle build --directory"),
    Mistake("image inspect catalog", "catalog", "a directory, not an image", "opm alpha list packages catalog"),
    Mistake("image copy oci:images/lagoon:0.1.0 out.tar", "out.tar", "a file, not an image", "oci-archive:out.tar"),
    Mistake(
        "image copy oci:images/lagoon:0.1.0 oci:copy:1 --platform linux/amd46",
        "linux/amd46",
        "has no image for",
        "did you mean linux/amd64?",
    ),
    Mistake("alpha list packages catalog -o yml", "yml", "--output", "did you mean yaml?"),
    Mistake("image prune --older-than x", "--older-than", "must be a valid number", "--help"),
    Mistake("index build empty -t oci:out:1 -i scratch", "empty", "no documents found", "directory of a catalog"),
    Mistake("index graph catalog -o htlm", "htlm", "--output", "did you mean html?"),
    Mistake("index rm catalog lagoon", "catalog lagoon", "unexpected arguments", "--operators"),
    Mistake("index rm lagoon -f catalog", "lagoon", "unexpected argument", "--operators"),
    Mistake("serve catalog --port x", "x", "--port", "--port 50051"),
    Mistake(f"index add -b {NEW} -t example.com/c:1", "operator-framework/opm", "default base", "--binary-image"),
    # adding
    Mistake(f"index add -b {OLD} -f index.db", "quay.io/me/lagoon:0.1.0", "already exists", "--skip-present", 2),
    Mistake(f"index add -b {OLD} -f catalog", "quay.io/me/lagoon:0.1.0", "already exists", "--skip-present", 2),
    Mistake(f"registry add -b {OLD} -d index.db", "quay.io/me/lagoon:0.1.0", "already exists", "--skip-present", 2),
    Mistake("index add -f catalog", "bundles", "not set", "opm index build"),
    Mistake("index add -b nonexist -f catalog", "nonexist:", NO_PATH, "check the path"),
    Mistake("index add -b ./nonexist -f catalog", "./nonexist", "manifests", "director"),
    Mistake("index add -b bundle -f catalog", "bundle:", "a directory, not an image", "./bundle"),
    Mistake(f"index add -b {NEW} -f nonexist -t example.com/c:1", "nonexist:", NO_PATH, "check the path"),
    Mistake(f"index add -b {NEW} -f ./nonexist", "./nonexist", "no such file or directory", "check the path"),
    Mistake(f"index add -b {NEW} -f oci:images/nope:1", "images/nope", "", "OCI image layout"),
    Mistake(f"index add -b {NEW} -f oci:images/lagoon:0.1.0", "oci:images/lagoon:0.1.0", "missing label", "--bundles"),
    Mistake("index add -b oci:images/catalog:1 -f catalog", "oci:images/catalog:1", "index image", LIST),
    Mistake("index add -b oci:images/lagoon:0.2.0 -f catalog", "oci:images/lagoon:0.2.0", "", "SOURCE=IMAGE"),
    Mistake(f"index add -b {NEW} -f index.db --channel stable", "database", "", "--to-fbc"),
    Mistake(f"index add -b {NEW} -f index.db --mode semvr", "semvr", "invalid update mode", "semver-skippatch"),
    Mistake(f"index add -b {NEW} -f index.db --container-tool dokcer", "dokcer", "unknown container tool", "docker"),
    Mistake(f"index add -b {NEW} -c docker -u podman", "container-tool", "cannot be set alongside", "--help"),
    Mistake(f"index add -b {NEW} -f catalog --push", "--push", "catalog", "--tag"),
    Mistake("index add -b me/X:1 -f index.db", "me/X:1", "upper-case letters", "me/x"),
    Mistake("index add -b https://quay.io/me/x:1 -f index.db", "https://quay.io/me/x:1", "", "quay.io/me/x:1"),
    Mistake("index add -b", "-b", "needs an argument", "--help"),
    Mistake("index add --bundel x", "--bundel", "unknown flag", "--bundles"),
    Mistake("index add -b x --push=maybe", "maybe", "--push", "--help"),
    Mistake("idnex add", "idnex", "unknown command", "index"),
    # changing
    Mistake("index rm -o lagon -f catalog", "lagon", "not found", NAME),
    Mistake("index rm -o lagon", "from-index", "not set", "--help"),
    Mistake("index prune -p lagon -f index.db", "lagon", "not found", NAME),
    Mistake(f"index filter {NAME}:stabel -f catalog", "stabel", "", "stable"),
    Mistake(f"index filter {NAME} -f index.db", "database", "", "--to-fbc"),
    Mistake(f"index filter {NAME}@>=9 -f catalog", f"{NAME}@>=9", "MAJOR.MINOR.PATCH", "RANGE"),
    Mistake("index deprecate --package lagon-operator -m x -f catalog", "lagon-operator", "", NAME),
    Mistake(f"index deprecate --package {NAME} -f catalog", "--message", "--undo", "--help"),
    Mistake("index diff catalog nonexist", "nonexist:", NO_PATH, "check the path"),
    Mistake("index graph with-readme", "README.md:1", "document", ".indexignore"),
    Mistake("index graph catalog lagon", "lagon", "not found", NAME),
    Mistake("registry rm -o x -d nonexist.db", "nonexist.db", "No such file or directory", "check the path"),
    Mistake("registry prune -p x -d catalog", "catalog", "Is a directory", "database file"),
    Mistake("registry prune -p x -d notes.txt", "notes.txt", "database", ""),
    # reading
    Mistake("render nonexist", "nonexist:", NO_PATH, "check the path"),
    Mistake("render -o jsno catalog", "jsno", "--output", "did you mean json?"),
    Mistake("migrate index.db /proc/nope", "/proc/nope", "No such file or directory", "path"),
    Mistake("migrate index.db catalog", "catalog", "not an empty directory", "another"),
    Mistake("validate nonexist", "nonexist:", NO_PATH, "check the path"),
    Mistake("validate lagoon.tar", "lagoon.tar", "not a database", "oci-archive:lagoon.tar"),
    Mistake("validate broken", "catalog.yaml:1", "at least one channel", "olm.channel"),
    Mistake("validate with-readme", "README.md:1", "document", ".indexignore"),
    Mistake("validate oci:images/lagoon:0.1.0", "oci:images/lagoon:0.1.0", "a bundle image", "opm bundle validate"),
    Mistake("alpha list bundles catalog lagon", "lagon", "not found", NAME),
    Mistake("alpha render-template basic empty", "empty", "Is a directory", "file"),
    Mistake("index plan c=catalog --cluster empty", "empty", "Is a directory", "file"),
    Mistake("alpha render-template basci x.yaml", "basci", "invalid template type", "--help"),
    Mistake("alpha render-template basic nonexist.yaml", "nonexist.yaml", "No such file or directory", "path"),
    Mistake("generate dockerfile nonexist", "nonexist", "no such directory", "catalog"),
    # images
    Mistake("image push example.com/none:1", "example.com/none", "not found", "opm image ls"),
    Mistake("image rm nothere:1", "nothere:1", "", "opm image ls"),
    Mistake("image pull example.com/x:1 --ca-file nope.pem", "nope.pem", "No such file or directory", "PEM"),
    Mistake("image pull example.com/x:1 --authfile nope.json", "nope.json", "", "--authfile"),
    Mistake("completion tcsh", "tcsh", "unknown shell", "--help"),
]  # fmt: skip


@pytest.fixture(scope="module")
def prepared(installed_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with bundles, indexes of each kind, and other directories."""
    opm = InstalledOpm(installed_bin, tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("prepared"))
    root = opm.directory
    for version in ("0.1.0", "0.2.0"):
        package = ("-p", NAME, "-c", "alpha,stable", "-e", "stable")
        manifests = str(LAGOON / version / "manifests")
        opm("bundle", "build", "-d", manifests, "-u", version, *package, "-t", f"oci:images/lagoon:{version}")
    opm("image", "copy", "oci:images/lagoon:0.1.0", "oci-archive:lagoon.tar")
    (root / "0.2.0").rename(root / "bundle")
    opm("registry", "add", "-d", "index.db", "-b", OLD)
    (root / "catalog").mkdir()
    opm("index", "add", "-b", OLD, "-f", "catalog")
    opm("index", "add", "-b", OLD, "-i", "scratch", "-t", "oci:images/catalog:1")
    shutil.copytree(MANIFESTS, root / "plain")
    shutil.copytree(root / "catalog", root / "with-readme")
    (root / "with-readme" / "README.md").write_text("# The catalog\n")
    (root / "empty").mkdir()
    shutil.copytree(LAGOON / "0.1.0", root / "versions" / "0.1.0")
    (root / "versions" / "README.md").write_text("Each directory has a ClusterServiceVersion.\n")
    (root / "broken").mkdir()
    (root / "broken" / "catalog.yaml").write_text("schema: olm.package\nname: x\ndefaultChannel: nope\n")
    (root / "notes.txt").write_text("not a database\n")
    return root


@pytest.fixture
def user(newcomer: InstalledOpm, prepared: Path) -> InstalledOpm:
    """Return the commands in the prepared directory, which mistakes do not change."""
    return replace(newcomer, directory=prepared)


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_message_contains_subject_cause_and_hint(user: InstalledOpm, mistake: Mistake) -> None:
    words = mistake.line.split()
    done = user.attempt(*words)
    assert done.returncode == mistake.status, done.stderr
    assert "Traceback" not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")] or [""]
    hint = done.stderr.partition("\n  hint: ")[2]
    assert mistake.subject in error
    assert mistake.cause in error
    assert mistake.hint.lower() in hint.lower(), done.stderr
    assert not re.search(r"[,:;]\s*$", hint), "the hint breaks off"
    assert_hint_exists(words, hint)


def test_bundles_in_subdirectories_are_named(user: InstalledOpm) -> None:
    done = user.attempt("bundle", "validate", "versions")
    assert (done.returncode, "hint: pass their directories, such as versions/0.1.0" in done.stdout) == (1, True)


def test_the_subject_of_an_error_is_named_once(user: InstalledOpm) -> None:
    done = user.attempt("bundle", "validate", "oci:images/catalog:1")
    assert done.stdout.startswith("oci:images/catalog:1 is not a bundle: it is an index image"), done.stdout


def test_serving_a_bundle_directory_names_what_to_serve(user: InstalledOpm) -> None:
    done = user.attempt("serve", "bundle")
    assert (done.returncode, "Kubernetes manifests belong to a bundle" in done.stderr) == (1, True), done.stderr


def test_serving_an_archive_names_its_transport(user: InstalledOpm) -> None:
    done = user.attempt("serve", "lagoon.tar")
    assert (done.returncode, "write oci-archive:lagoon.tar" in done.stderr) == (1, True), done.stderr


def test_authentication_error_names_registry_user_and_login_command(newcomer: InstalledOpm) -> None:
    with Registry(users={"me": "secret"}) as registry:
        authfile = newcomer.directory / "auth.json"
        authfile.write_text(json.dumps({"auths": {registry.host: {"username": "me", "password": "wr0ng"}}}))
        done = newcomer.attempt("image", "pull", f"{registry.host}/x:1", "--use-http", "--authfile", str(authfile))
        assert done.returncode == 1
        assert f"{registry.host}/x:1" in done.stderr
        assert "authentication failed" in done.stderr
        assert "(user me)" in done.stderr
        assert "podman login" in done.stderr
        assert "wr0ng" not in done.stderr


def _command(words: list[str]) -> Any:
    """Return the innermost command or group that the words name."""
    command = all_commands()
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return command


def assert_hint_exists(words: list[str], hint: str) -> None:
    """Check that the flags of a hint are flags of the command, and that the commands of a hint exist."""
    named = re.findall(r"'opm ([^']+)'", hint)
    for command in named:
        path = [word for word in command.split() if not word.startswith("-")]
        found = _command(path)
        assert found is not all_commands() or not path, f"opm {command} does not exist"
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"'opm [^']+'", "", hint)))
    known = {flag for param in _command(words).params for flag in param.opts} | {"--help"}
    assert flags <= known, f"{flags - known} do not exist for opm {' '.join(words[:2])}"
