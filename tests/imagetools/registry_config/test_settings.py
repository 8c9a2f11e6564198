"""The settings of a machine and its user: which files, what they may say, and what they come to."""

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
    """A machine with settings below ``etc`` and a user at home in ``home``."""

    def __init__(self, root: Path) -> None:
        self.etc, self.home = root / "etc", root / "home"
        self.system, self.user = self.etc / "containers", self.home / ".config/containers"
        self.environ = {"HOME": str(self.home)}

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def settings(self, text: str) -> RegistrySettings:
        self.write(self.system / "registries.conf", text)
        return self.hosts()

    def hosts(self) -> RegistrySettings:
        return RegistrySettings(self.environ, system=self.etc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def entry(location: str, *more: str) -> str:
    return "\n".join(["[[registry]]", f'location = "{location}"', *more, ""])


def insecure(hosts: RegistrySettings, name: str) -> bool:
    (place,) = hosts.pull_locations(Reference.parse(name))
    return place.insecure


def names(hosts: RegistrySettings, reference: str) -> list[str]:
    return [place.name for place in hosts.pull_locations(Reference.parse(reference))]


def test_without_settings_a_reference_names_its_place(machine: Machine) -> None:
    hosts, reference = machine.hosts(), Reference.parse("quay.io/me/x:1")
    assert hosts.pull_locations(reference) == (RepositoryLocation("quay.io", "me/x"),)
    assert hosts.push_location(reference) == RepositoryLocation("quay.io", "me/x")
    assert hosts.resolve_short_name(Reference.parse("me/x")) == Reference("docker.io", "me/x")
    assert hosts.certificates("quay.io") == Certificates()
    assert hosts.credential_helpers() == ("containers-auth.json",)


def test_without_settings_no_reader_is_loaded(machine: Machine) -> None:
    machine.settings("# all of it\n\n   # is commented out\n")
    program = (
        "import sys; from pathlib import Path; from opmkit.imagetools.registry_config import RegistrySettings; "
        "from opmkit.imagetools.reference import Reference; hosts = RegistrySettings({}, system=Path(sys.argv[1])); "
        "hosts.pull_locations(Reference.parse('quay.io/x')); print('tomllib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(machine.etc)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_users_file_takes_the_place_of_the_systems_with_its_drop_ins(machine: Machine) -> None:
    machine.write(machine.system / "registries.conf", entry("a.test", "insecure = true"))
    machine.write(machine.system / "registries.conf.d/x.conf", entry("b.test", "insecure = true"))
    machine.write(machine.user / "registries.conf.d/x.conf", entry("c.test", "insecure = true"))
    hosts = machine.hosts()
    assert [insecure(hosts, f"{name}.test/x") for name in "abcd"] == [True, True, True, False]
    machine.write(machine.user / "registries.conf", entry("d.test", "insecure = true"))
    hosts = machine.hosts()
    assert [insecure(hosts, f"{name}.test/x") for name in "abcd"] == [False, False, True, True]


def test_a_variable_names_the_main_file_and_another_the_last(machine: Machine, tmp_path: Path) -> None:
    machine.write(machine.user / "registries.conf", entry("a.test", "insecure = true"))
    machine.write(machine.system / "registries.conf.d/x.conf", entry("b.test", "insecure = true"))
    named = machine.write(tmp_path / "named.conf", entry("c.test", "insecure = true"))
    last = machine.write(tmp_path / "last.conf", entry("b.test", "insecure = false"))
    machine.environ["CONTAINERS_REGISTRIES_CONF"] = str(named)
    hosts = machine.hosts()
    assert [insecure(hosts, f"{name}.test/x") for name in "abc"] == [False, True, True]
    machine.environ["CONTAINERS_REGISTRIES_CONF_OVERRIDE"] = str(last)
    assert not insecure(machine.hosts(), "b.test/x")


def test_a_variable_may_switch_the_main_file_off(machine: Machine) -> None:
    machine.write(machine.user / "registries.conf", "broken")
    machine.environ["CONTAINERS_REGISTRIES_CONF"] = "/dev/null"
    assert names(machine.hosts(), "quay.io/x") == ["quay.io/x"]


def test_a_file_that_a_variable_names_must_be_there(machine: Machine) -> None:
    machine.environ["CONTAINERS_REGISTRIES_CONF"] = "/nowhere/registries.conf"
    with pytest.raises(ImageToolsError, match=r"/nowhere/registries\.conf: there is no such file") as caught:
        machine.hosts().pull_locations(Reference.parse("quay.io/x"))
    assert "CONTAINERS_REGISTRIES_CONF" in str(caught.value.hint)


def test_drop_ins_override_in_the_order_of_their_names(machine: Machine) -> None:
    folder = machine.system / "registries.conf.d"
    first = 'unqualified-search-registries = ["one.test"]\n[aliases]\n"x" = "one.test/x"\n"y" = "one.test/y"\n'
    machine.write(
        folder / "10.conf", first + entry("quay.io", "insecure = true", "[[registry.mirror]]", 'location="m"')
    )
    machine.write(folder / "20.conf", '[aliases]\n"x" = "two.test/x"\n"y" = ""\n' + entry("quay.io"))
    machine.write(folder / "30.conf.off", "broken")
    (folder / "40.conf").mkdir()
    hosts = machine.hosts()
    assert hosts.pull_locations(Reference.parse("quay.io/a")) == (RepositoryLocation("quay.io", "a"),)
    assert [str(hosts.resolve_short_name(Reference.parse(name))) for name in ("x:1", "y", "z")] == [
        "two.test/x:1",
        "one.test/y",
        "one.test/z",
    ]


def test_a_home_of_somebody_else_is_passed_by(machine: Machine) -> None:
    machine.environ["HOME"] = "/proc/1/nowhere"
    assert names(machine.hosts(), "quay.io/x") == ["quay.io/x"]


def test_a_user_without_a_home(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.settings(entry("a.test", "insecure = true"))
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pathlib.Path.home", _no_home)
    hosts = RegistrySettings({}, system=machine.etc)
    assert insecure(hosts, "a.test/x")
    assert str(hosts.resolve_short_name(Reference.parse("x"))) == "docker.io/library/x"
    assert hosts.certificates("a.test") == Certificates()


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.parametrize(
    ("prefix", "name", "found"),
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
def test_prefix_and_location(machine: Machine, prefix: str, name: str, found: str) -> None:
    hosts = machine.settings(entry("mirror.test/base", f'prefix = "{prefix}"'))
    expected = found.replace("mirror.test", "mirror.test/base") or name
    assert names(hosts, f"{name}:1") == [expected]
    assert hosts.push_location(Reference.parse(name)).registry == name.partition("/")[0]


def test_a_host_without_a_port_stands_for_all_ports(machine: Machine) -> None:
    hosts = machine.settings(entry("localhost", "insecure = true"))
    assert insecure(hosts, "localhost:5000/x")
    assert names(hosts, "localhost:5000/x") == ["localhost:5000/x"]


def test_a_wildcard_needs_no_location(machine: Machine) -> None:
    hosts = machine.settings('[[registry]]\nprefix = "*.test"\ninsecure = true\n')
    assert hosts.pull_locations(Reference.parse("a.test:5000/x")) == (
        RepositoryLocation("a.test:5000", "x", insecure=True),
    )


def test_the_longest_prefix_decides(machine: Machine) -> None:
    text = entry("one.test", 'prefix = "quay.io"') + entry("two.test", 'prefix = "quay.io/me"') + entry("quay.io/me/x")
    hosts = machine.settings(text)
    found = [names(hosts, f"quay.io/{name}") for name in ("you/a", "me/a", "me/x")]
    assert found == [["one.test/you/a"], ["two.test/a"], ["quay.io/me/x"]]


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


def test_mirrors_by_what_is_asked_for(machine: Machine) -> None:
    hosts = machine.settings(MIRRORS)
    assert names(hosts, "quay.io/x") == ["all.test/x", "tags.test/x", "inner.test/quay/x"]
    assert names(hosts, f"quay.io/x:1@{DIGEST}") == ["all.test/x", "digests.test/some/x", "inner.test/quay/x"]
    assert hosts.pull_locations(Reference.parse("quay.io/x"))[0].insecure
    hosts = machine.settings(
        entry("quay.io", "mirror-by-digest-only = true", "[[registry.mirror]]", 'location = "m.test"')
    )
    assert names(hosts, "quay.io/x:1") == ["quay.io/x"]
    assert names(hosts, f"quay.io/x@{DIGEST}") == ["m.test/x", "quay.io/x"]


def test_blocked_places_say_by_what(machine: Machine) -> None:
    text = entry("quay.io", "blocked = true", "[[registry.mirror]]", 'location = "m.test"') + entry(
        "bad.test", "blocked = true"
    )
    hosts = machine.settings(text + entry("x.test", "[[registry.mirror]]", 'location = "bad.test"'))
    file = str(machine.system / "registries.conf")
    assert [place.blocked_by for place in hosts.pull_locations(Reference.parse("quay.io/x"))] == ["", file]
    assert [place.blocked_by for place in hosts.pull_locations(Reference.parse("x.test/x"))] == [file, ""]
    assert hosts.push_location(Reference.parse("quay.io/x")).blocked_by == file


def test_short_names(machine: Machine) -> None:
    hosts = machine.settings('unqualified-search-registries = ["quay.io"]\n[aliases]\n"ubi" = "redhat.test/ubi8/ubi"\n')
    found = {
        name: str(hosts.resolve_short_name(Reference.parse(name)))
        for name in ("ubi:8", "me/x", "localhost/x", "docker.io/x")
    }
    assert found == {
        "ubi:8": "redhat.test/ubi8/ubi:8",
        "me/x": "quay.io/me/x",
        "localhost/x": "localhost/x",
        "docker.io/x": "docker.io/library/x",
    }
    assert hosts.resolve_short_name(Reference.parse("ubi").with_digest(DIGEST)).digest == DIGEST


def test_a_short_name_that_may_mean_several_things(machine: Machine) -> None:
    hosts = machine.settings('unqualified-search-registries = ["a.test", "b.test", "a.test"]\n')
    with pytest.raises(NotFound, match="me/x: several registries") as caught:
        hosts.resolve_short_name(Reference.parse("me/x:1"))
    assert str(caught.value.hint) == "write one of a.test/me/x, b.test/me/x"


def test_what_was_decided_about_a_short_name_precedes(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    machine.write(machine.home / ".cache/containers/short-name-aliases.conf", '[aliases]\n"x" = "mine.test/x"\n')
    hosts = machine.settings('[aliases]\n"x" = "theirs.test/x"\n')
    assert str(hosts.resolve_short_name(Reference.parse("x"))) == "mine.test/x"


def test_credential_helpers(machine: Machine) -> None:
    hosts = machine.settings('credential-helpers = ["pass", "containers-auth.json"]\n')
    assert hosts.credential_helpers() == ("pass", "containers-auth.json")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('a = 1\n[[registry]\nlocation = "x"\n', 2, "is no TOML"),
        ('a = 1\nb = "', 2, "is no TOML"),
        ('# old\n\n[registries.search]\nregistries = ["docker.io"]\n', 3, "version 1"),
        ('[registries.insecure]\nregistries = ["x"]\n', 1, "version 1"),
        ('\n[[registry]]\nprefix = "quay.io"\n', 2, r"\[\[registry\]\] table names no location for the prefix quay.io"),
        ('[[registry]]\nlocation="a"\n\n[[registry]]\ninsecure = true\n', 4, "names neither prefix nor location"),
        ('[[registry]]\nlocation = "https://quay.io"\n', 1, "write it without https://"),
        ('[[registry]]\nlocation = "a"\ninsecure = "yes"\n', 3, "insecure that is not true or false"),
        ('[[registry]]\nlocation = "a"\nmirror = "b"\n', 3, "mirror that is not an array"),
        ('[[registry]]\nlocation = "a"\n[[registry.mirror]]\ninsecure = true\n', 3, "mirror.* names no location"),
        (f'{MIRRORS}[[registry.mirror]]\nlocation="z"\npull-from-mirror = "never"\n', 14, "'never', which is none of"),
        (
            '[[registry]]\nlocation = "a"\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = "b"\n'
            'pull-from-mirror = "all"\n',
            4,
            "excludes",
        ),
        ('[[registry]]\nlocation = "a"\n[[registry]]\nlocation = "a"\nblocked = true\n', 3, "contradicts an earlier"),
        ("registry = 1\n", 1, "registry is not an array of tables"),
        ("registry = [1]\n", None, "registry is no array of tables"),
        ('\nunqualified-search-registries = "x"\n', 2, "not an array of strings"),
        ("credential-helpers = [1]\n", 1, "not an array of strings"),
        ('[aliases]\n"x" = 1\n', 2, "alias x is not a string"),
        ("a = " + "[" * 100_000, None, "nested too deeply"),
    ],
)
def test_what_can_not_be_understood_is_shown_by_its_line(
    machine: Machine, text: str, line: int | None, reason: str
) -> None:
    with pytest.raises(ImageToolsError, match=reason) as caught:
        machine.settings(text).pull_locations(Reference.parse("quay.io/x"))
    file = machine.system / "registries.conf"
    where = f"{file}, line {line}: " if line else f"{file}: "
    assert caught.value.message.startswith(f"registry settings {where}")
    assert str(caught.value.hint)


def test_no_text_and_too_much_of_it(machine: Machine) -> None:
    path = machine.write(machine.system / "registries.conf", "")
    path.write_bytes(b"# one\n# \xff\n")
    with pytest.raises(ImageToolsError, match="line 2: is not UTF-8"):
        machine.hosts().pull_locations(Reference.parse("quay.io/x"))
    path.write_bytes(b"#" * (4 << 20) + b"#")
    with pytest.raises(ImageToolsError, match="longer than"):
        machine.hosts().pull_locations(Reference.parse("quay.io/x"))


def test_an_empty_version_1_says_nothing(machine: Machine) -> None:
    hosts = machine.settings("[registries.search]\nregistries = []\n[registries.block]\nregistries = []\n")
    assert names(hosts, "quay.io/x") == ["quay.io/x"]


def test_a_location_that_makes_no_name(machine: Machine) -> None:
    hosts = machine.settings(entry("mirror.test", 'prefix = "quay.io/me/x"'))
    with pytest.raises(ImageToolsError, match=r"quay\.io/me/x:1: the location mirror\.test") as caught:
        hosts.pull_locations(Reference.parse("quay.io/me/x:1"))
    assert "registries.conf" in str(caught.value.hint)


def test_every_file_is_read_once(machine: Machine) -> None:
    hosts = machine.settings(entry("a.test", "insecure = true"))
    assert insecure(hosts, "a.test/x")
    machine.settings("broken")
    assert insecure(hosts, "a.test/y")


def test_certificates_of_the_first_directory_there_is(machine: Machine) -> None:
    docker = machine.write(machine.etc / "docker/certs.d/a.test:5000/ca.crt", "")
    assert machine.hosts().certificates("a.test:5000") == Certificates((docker,))
    assert machine.hosts().certificates("a.test") == Certificates()
    system = machine.write(machine.system / "certs.d/a.test:5000/ca.crt", "")
    assert machine.hosts().certificates("a.test:5000") == Certificates((system,))
    folder = machine.user / "certs.d/a.test:5000"
    files = [machine.write(folder / name, "") for name in ("a.crt", "b.crt", "me.cert", "me.key", "readme")]
    assert machine.hosts().certificates("a.test:5000") == Certificates(tuple(files[:2]), ((files[2], files[3]),))


@pytest.mark.parametrize(("name", "missing"), [("me.cert", "me.key"), ("me.key", "me.cert")])
def test_half_a_client_certificate(machine: Machine, name: str, missing: str) -> None:
    path = machine.write(machine.system / "certs.d/a.test" / name, "")
    with pytest.raises(ImageToolsError) as caught:
        machine.hosts().certificates("a.test")
    assert str(path) in caught.value.message
    assert missing in caught.value.message
    assert f"add {path.parent / missing}" in str(caught.value.hint)
