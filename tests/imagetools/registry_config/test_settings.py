"""Discovery, parsing and lookup of registry settings."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry_config import Certificates, RegistrySettings, RepositoryLocation
from opmkit.imagetools.spec import sha256_digest

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = sha256_digest(b"image")


class Machine:
    """A machine with its settings directory ``etc`` and a user's home directory."""

    def __init__(self, root: Path) -> None:
        self.etc, self.home = root / "etc", root / "home"
        self.system, self.user = self.etc / "containers", self.home / ".config/containers"
        self.environ = {"HOME": str(self.home)}

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configure(self, text: str) -> RegistrySettings:
        self.write(self.system / "registries.conf", text)
        return self.load()

    def load(self) -> RegistrySettings:
        return RegistrySettings(self.environ, system=self.etc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def registry_table(location: str, *more: str) -> str:
    return "\n".join(["[[registry]]", f'location = "{location}"', *more, ""])


def insecure(settings: RegistrySettings, name: str) -> bool:
    (location,) = settings.pull_locations(Reference.parse(name))
    return location.insecure


def names(settings: RegistrySettings, reference: str) -> list[str]:
    return [location.name for location in settings.pull_locations(Reference.parse(reference))]


def test_without_settings(machine: Machine) -> None:
    settings, reference = machine.load(), Reference.parse("quay.io/me/x:1")
    assert settings.pull_locations(reference) == (RepositoryLocation("quay.io", "me/x"),)
    assert settings.push_location(reference) == RepositoryLocation("quay.io", "me/x")
    assert settings.resolve_short_name(Reference.parse("me/x")) == Reference("docker.io", "me/x")
    assert settings.certificates("quay.io") == Certificates()
    assert settings.credential_helpers() == ("containers-auth.json",)


def test_toml_parser_is_not_imported_for_empty_settings(machine: Machine) -> None:
    machine.configure("# all of it\n\n   # is commented out\n")
    program = (
        "import sys; from pathlib import Path; from opmkit.imagetools.registry_config import RegistrySettings; "
        "from opmkit.imagetools.reference import Reference; settings = RegistrySettings({}, system=Path(sys.argv[1])); "
        "settings.pull_locations(Reference.parse('quay.io/x')); print('tomllib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(machine.etc)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_user_file_replaces_the_system_file_and_its_drop_ins(machine: Machine) -> None:
    machine.write(machine.system / "registries.conf", registry_table("a.test", "insecure = true"))
    machine.write(machine.system / "registries.conf.d/x.conf", registry_table("b.test", "insecure = true"))
    machine.write(machine.user / "registries.conf.d/x.conf", registry_table("c.test", "insecure = true"))
    settings = machine.load()
    assert [insecure(settings, f"{name}.test/x") for name in "abcd"] == [True, True, True, False]
    machine.write(machine.user / "registries.conf", registry_table("d.test", "insecure = true"))
    settings = machine.load()
    assert [insecure(settings, f"{name}.test/x") for name in "abcd"] == [False, False, True, True]


def test_variables_name_the_main_file_and_the_override(machine: Machine, tmp_path: Path) -> None:
    machine.write(machine.user / "registries.conf", registry_table("a.test", "insecure = true"))
    machine.write(machine.system / "registries.conf.d/x.conf", registry_table("b.test", "insecure = true"))
    named = machine.write(tmp_path / "named.conf", registry_table("c.test", "insecure = true"))
    last = machine.write(tmp_path / "last.conf", registry_table("b.test", "insecure = false"))
    machine.environ["CONTAINERS_REGISTRIES_CONF"] = str(named)
    settings = machine.load()
    assert [insecure(settings, f"{name}.test/x") for name in "abc"] == [False, True, True]
    machine.environ["CONTAINERS_REGISTRIES_CONF_OVERRIDE"] = str(last)
    assert not insecure(machine.load(), "b.test/x")


def test_variable_disables_the_main_file(machine: Machine) -> None:
    machine.write(machine.user / "registries.conf", "broken")
    machine.environ["CONTAINERS_REGISTRIES_CONF"] = "/dev/null"
    assert names(machine.load(), "quay.io/x") == ["quay.io/x"]


def test_file_named_by_a_variable_must_exist(machine: Machine) -> None:
    machine.environ["CONTAINERS_REGISTRIES_CONF"] = "/nowhere/registries.conf"
    with pytest.raises(ImageToolsError, match=r"/nowhere/registries\.conf: file does not exist") as caught:
        machine.load().pull_locations(Reference.parse("quay.io/x"))
    assert "CONTAINERS_REGISTRIES_CONF" in str(caught.value.hint)


def test_drop_ins_apply_in_the_order_of_their_names(machine: Machine) -> None:
    directory = machine.system / "registries.conf.d"
    first = 'unqualified-search-registries = ["one.test"]\n[aliases]\n"x" = "one.test/x"\n"y" = "one.test/y"\n'
    machine.write(
        directory / "10.conf",
        first + registry_table("quay.io", "insecure = true", "[[registry.mirror]]", 'location="m"'),
    )
    machine.write(directory / "20.conf", '[aliases]\n"x" = "two.test/x"\n"y" = ""\n' + registry_table("quay.io"))
    machine.write(directory / "30.conf.off", "broken")
    (directory / "40.conf").mkdir()
    settings = machine.load()
    assert settings.pull_locations(Reference.parse("quay.io/a")) == (RepositoryLocation("quay.io", "a"),)
    assert [str(settings.resolve_short_name(Reference.parse(name))) for name in ("x:1", "y", "z")] == [
        "two.test/x:1",
        "one.test/y",
        "one.test/z",
    ]


def test_inaccessible_home_directory_is_ignored(machine: Machine) -> None:
    machine.environ["HOME"] = "/proc/1/nowhere"
    assert names(machine.load(), "quay.io/x") == ["quay.io/x"]


def test_user_without_a_home_directory(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.configure(registry_table("a.test", "insecure = true"))
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pathlib.Path.home", _no_home)
    settings = RegistrySettings({}, system=machine.etc)
    assert insecure(settings, "a.test/x")
    assert str(settings.resolve_short_name(Reference.parse("x"))) == "docker.io/library/x"
    assert settings.certificates("a.test") == Certificates()


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.parametrize(
    ("prefix", "name", "location"),
    [
        ("quay.io", "quay.io/me/x", "mirror.test/me/x"),
        ("quay.io/me", "quay.io/me/x", "mirror.test/x"),
        ("quay.io/me/x", "quay.io/me/x", "mirror.test"),
        ("quay.io/me", "quay.io/mean/x", ""),
        ("quay.io", "quay.io.test/x", ""),
        ("*.quay.io", "eu.quay.io/x", "mirror.test/x"),
        ("*.quay.io", "a.eu.quay.io/me/x", "mirror.test/me/x"),
        ("*.quay.io", "quay.io/x", ""),
        ("*.quay.io", "other.test/eu.quay.io/x", ""),
        ("docker.io/library", "docker.io/x", "mirror.test/x"),
    ],
)
def test_prefix_and_location(machine: Machine, prefix: str, name: str, location: str) -> None:
    settings = machine.configure(registry_table("mirror.test/base", f'prefix = "{prefix}"'))
    expected = location.replace("mirror.test", "mirror.test/base") or name
    assert names(settings, f"{name}:1") == [expected]
    assert settings.push_location(Reference.parse(name)).registry == name.partition("/")[0]


def test_host_without_a_port_matches_any_port(machine: Machine) -> None:
    settings = machine.configure(registry_table("localhost", "insecure = true"))
    assert insecure(settings, "localhost:5000/x")
    assert names(settings, "localhost:5000/x") == ["localhost:5000/x"]


def test_wildcard_without_a_location(machine: Machine) -> None:
    settings = machine.configure('[[registry]]\nprefix = "*.test"\ninsecure = true\n')
    assert settings.pull_locations(Reference.parse("a.test:5000/x")) == (
        RepositoryLocation("a.test:5000", "x", insecure=True),
    )


def test_longest_prefix_takes_precedence(machine: Machine) -> None:
    text = (
        registry_table("one.test", 'prefix = "quay.io"')
        + registry_table("two.test", 'prefix = "quay.io/me"')
        + registry_table("quay.io/me/x")
    )
    settings = machine.configure(text)
    locations = [names(settings, f"quay.io/{name}") for name in ("you/a", "me/a", "me/x")]
    assert locations == [["one.test/you/a"], ["two.test/a"], ["quay.io/me/x"]]


MIRRORS = """
[[registry]]
prefix = "quay.io"
location = "inner.test/quay"
[[registry.mirror]]
location = "all.test/"
insecure = true
[[registry.mirror]]
location = "digests.test/some"
pull-from-mirror = "digest-only"
[[registry.mirror]]
location = "tags.test"
pull-from-mirror = "tag-only"
"""


def test_mirrors_for_tags_and_digests(machine: Machine) -> None:
    settings = machine.configure(MIRRORS)
    assert names(settings, "quay.io/x") == ["all.test/x", "tags.test/x", "inner.test/quay/x"]
    assert names(settings, f"quay.io/x:1@{DIGEST}") == ["all.test/x", "digests.test/some/x", "inner.test/quay/x"]
    assert settings.pull_locations(Reference.parse("quay.io/x"))[0].insecure
    settings = machine.configure(
        registry_table("quay.io", "mirror-by-digest-only = true", "[[registry.mirror]]", 'location = "m.test"')
    )
    assert names(settings, "quay.io/x:1") == ["quay.io/x"]
    assert names(settings, f"quay.io/x@{DIGEST}") == ["m.test/x", "quay.io/x"]


def test_blocked_locations_name_the_file(machine: Machine) -> None:
    text = registry_table("quay.io", "blocked = true", "[[registry.mirror]]", 'location = "m.test"') + registry_table(
        "bad.test", "blocked = true"
    )
    settings = machine.configure(text + registry_table("x.test", "[[registry.mirror]]", 'location = "bad.test"'))
    file = str(machine.system / "registries.conf")
    assert [location.blocked_by for location in settings.pull_locations(Reference.parse("quay.io/x"))] == ["", file]
    assert [location.blocked_by for location in settings.pull_locations(Reference.parse("x.test/x"))] == [file, ""]
    assert settings.push_location(Reference.parse("quay.io/x")).blocked_by == file


def test_short_names(machine: Machine) -> None:
    settings = machine.configure(
        'unqualified-search-registries = ["quay.io"]\n[aliases]\n"ubi" = "redhat.test/ubi8/ubi"\n'
    )
    resolved = {
        name: str(settings.resolve_short_name(Reference.parse(name)))
        for name in ("ubi:8", "me/x", "localhost/x", "docker.io/x")
    }
    assert resolved == {
        "ubi:8": "redhat.test/ubi8/ubi:8",
        "me/x": "quay.io/me/x",
        "localhost/x": "localhost/x",
        "docker.io/x": "docker.io/library/x",
    }
    assert settings.resolve_short_name(Reference.parse("ubi").with_digest(DIGEST)).digest == DIGEST


def test_ambiguous_short_name(machine: Machine) -> None:
    settings = machine.configure('unqualified-search-registries = ["a.test", "b.test", "a.test"]\n')
    with pytest.raises(NotFound, match="me/x: ambiguous short name") as caught:
        settings.resolve_short_name(Reference.parse("me/x:1"))
    assert str(caught.value.hint) == "write one of a.test/me/x, b.test/me/x"


def test_recorded_alias_takes_precedence(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    machine.write(machine.home / ".cache/containers/short-name-aliases.conf", '[aliases]\n"x" = "mine.test/x"\n')
    settings = machine.configure('[aliases]\n"x" = "theirs.test/x"\n')
    assert str(settings.resolve_short_name(Reference.parse("x"))) == "mine.test/x"


def test_credential_helpers(machine: Machine) -> None:
    settings = machine.configure('credential-helpers = ["pass", "containers-auth.json"]\n')
    assert settings.credential_helpers() == ("pass", "containers-auth.json")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('a = 1\n[[registry]\nlocation = "x"\n', 2, "invalid TOML"),
        ('a = 1\nb = "', 2, "invalid TOML"),
        ('# old\n\n[registries.search]\nregistries = ["docker.io"]\n', 3, "version 1"),
        ('[registries.insecure]\nregistries = ["x"]\n', 1, "version 1"),
        ('\n[[registry]]\nprefix = "quay.io"\n', 2, r"\[\[registry\]\]: location is missing for the prefix quay.io"),
        ('[[registry]]\nlocation="a"\n\n[[registry]]\ninsecure = true\n', 4, "prefix and location are missing"),
        ('[[registry]]\nlocation = "https://quay.io"\n', 1, "remove https://"),
        ('[[registry]]\nlocation = "a"\ninsecure = "yes"\n', 3, "insecure: expected a boolean"),
        ('[[registry]]\nlocation = "a"\nmirror = "b"\n', 3, "mirror: expected an array"),
        (
            '[[registry]]\nlocation = "a"\n[[registry.mirror]]\ninsecure = true\n',
            3,
            r"\[\[registry\.mirror\]\]: location is missing",
        ),
        (f'{MIRRORS}[[registry.mirror]]\nlocation="z"\npull-from-mirror = "never"\n', 14, "'never'; expected one of"),
        (
            '[[registry]]\nlocation = "a"\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = "b"\n'
            'pull-from-mirror = "all"\n',
            4,
            "cannot be combined",
        ),
        ('[[registry]]\nlocation = "a"\n[[registry]]\nlocation = "a"\nblocked = true\n', 3, "contradicts an earlier"),
        ("registry = 1\n", 1, "registry: expected an array of tables"),
        ("registry = [1]\n", None, "registry: expected an array of tables"),
        ('\nunqualified-search-registries = "x"\n', 2, "expected an array of strings"),
        ("credential-helpers = [1]\n", 1, "expected an array of strings"),
        ('[aliases]\n"x" = 1\n', 2, "alias x: expected a string"),
        ("a = " + "[" * 100_000, None, "nested too deeply"),
        ("a = " + "9" * 5000, None, "invalid TOML: an integer has too many digits"),
    ],
)
def test_errors_name_file_and_line(machine: Machine, text: str, line: int | None, reason: str) -> None:
    with pytest.raises(ImageToolsError, match=reason) as caught:
        machine.configure(text).pull_locations(Reference.parse("quay.io/x"))
    file = machine.system / "registries.conf"
    location = f"{file}, line {line}: " if line else f"{file}: "
    assert caught.value.message.startswith(f"registry settings {location}")
    assert str(caught.value.hint)


def test_invalid_utf8_and_large_files(machine: Machine) -> None:
    path = machine.write(machine.system / "registries.conf", "")
    path.write_bytes(b"# one\n# \xff\n")
    with pytest.raises(ImageToolsError, match="line 2: invalid UTF-8"):
        machine.load().pull_locations(Reference.parse("quay.io/x"))
    path.write_bytes(b"#" * (4 << 20) + b"#")
    with pytest.raises(ImageToolsError, match="exceeds the limit"):
        machine.load().pull_locations(Reference.parse("quay.io/x"))


def test_empty_version_1_tables_are_accepted(machine: Machine) -> None:
    settings = machine.configure("[registries.search]\nregistries = []\n[registries.block]\nregistries = []\n")
    assert names(settings, "quay.io/x") == ["quay.io/x"]


def test_location_that_leads_to_an_invalid_name(machine: Machine) -> None:
    settings = machine.configure(registry_table("mirror.test", 'prefix = "quay.io/me/x"'))
    with pytest.raises(ImageToolsError, match=r"quay\.io/me/x:1: location mirror\.test") as caught:
        settings.pull_locations(Reference.parse("quay.io/me/x:1"))
    assert "registries.conf" in str(caught.value.hint)


def test_files_are_read_once(machine: Machine) -> None:
    settings = machine.configure(registry_table("a.test", "insecure = true"))
    assert insecure(settings, "a.test/x")
    machine.configure("broken")
    assert insecure(settings, "a.test/y")


def test_certificates_of_the_first_existing_directory(machine: Machine) -> None:
    docker = machine.write(machine.etc / "docker/certs.d/a.test:5000/ca.crt", "")
    assert machine.load().certificates("a.test:5000") == Certificates((docker,))
    assert machine.load().certificates("a.test") == Certificates()
    system = machine.write(machine.system / "certs.d/a.test:5000/ca.crt", "")
    assert machine.load().certificates("a.test:5000") == Certificates((system,))
    directory = machine.user / "certs.d/a.test:5000"
    files = [machine.write(directory / name, "") for name in ("a.crt", "b.crt", "me.cert", "me.key", "readme")]
    assert machine.load().certificates("a.test:5000") == Certificates(tuple(files[:2]), ((files[2], files[3]),))


@pytest.mark.parametrize(("name", "missing"), [("me.cert", "me.key"), ("me.key", "me.cert")])
def test_client_certificate_without_its_key_and_vice_versa(machine: Machine, name: str, missing: str) -> None:
    path = machine.write(machine.system / "certs.d/a.test" / name, "")
    with pytest.raises(ImageToolsError) as caught:
        machine.load().certificates("a.test")
    assert str(path) in caught.value.message
    assert missing in caught.value.message
    assert f"add {path.parent / missing}" in str(caught.value.hint)
