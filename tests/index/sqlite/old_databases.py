"""Index databases of every older schema, with its constraints."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_KEY = "operatorbundle_name TEXT, operatorbundle_version TEXT, operatorbundle_path TEXT"
_BUNDLE = (
    "FOREIGN KEY (operatorbundle_name, operatorbundle_version, operatorbundle_path) "
    "REFERENCES operatorbundle (name, version, bundlepath) ON DELETE CASCADE"
)
_API = "FOREIGN KEY (group_name, version, kind) REFERENCES api (group_name, version, kind)"


def schema(level: int) -> str:
    """Return the statements that create an empty database of a schema."""
    cascade = " ON DELETE CASCADE" if level >= 4 else ""
    package_key = "" if level >= 4 else ", FOREIGN KEY (package_name) REFERENCES package (name)"
    columns = "".join(
        f", {column} TEXT"
        for since, column in (
            (2, "bundlepath"),
            (5, "skiprange"),
            (5, "version"),
            (7, "replaces"),
            (7, "skips"),
            (11, "substitutesfor"),
        )
        if level >= since
    )
    statements = [
        f"CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT{'' if level >= 4 else ' UNIQUE'}, "
        f"bundle TEXT{columns})",
        "CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT, "
        f"FOREIGN KEY (name, default_channel) REFERENCES channel (package_name, name){cascade})",
        "CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT, "
        f"PRIMARY KEY (name, package_name){package_key}, "
        f"FOREIGN KEY (head_operatorbundle_name) REFERENCES operatorbundle (name){cascade})",
        "CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, "
        "operatorbundle_name TEXT, replaces INTEGER, depth INTEGER, "
        "FOREIGN KEY (replaces) REFERENCES channel_entry (entry_id) DEFERRABLE INITIALLY DEFERRED, "
        f"FOREIGN KEY (channel_name, package_name) REFERENCES channel (name, package_name){cascade})",
        "CREATE TABLE api (group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL, "
        "PRIMARY KEY (group_name, version, kind))",
        *(_api_table(level, table) for table in ("api_provider", "api_requirer")[: 2 if level >= 3 else 1]),
        "CREATE TABLE schema_migrations (version BIGINT NOT NULL, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP)",
        f"INSERT INTO schema_migrations (version) VALUES ({level})",
    ]
    later = (
        (
            1,
            "CREATE TABLE related_image (image TEXT, operatorbundle_name TEXT, "
            f"FOREIGN KEY (operatorbundle_name) REFERENCES operatorbundle (name){cascade})",
        ),
        (6, "CREATE UNIQUE INDEX pk ON operatorbundle (name, version, bundlepath)"),
        *((7, _trigger(table)) for table in ("api_provider", "api_requirer")),
        (8, f"CREATE TABLE dependencies (type TEXT, value TEXT, {_KEY}, {_BUNDLE})"),
        (9, f"CREATE TABLE properties (type TEXT, value TEXT, {_KEY}, {_BUNDLE})"),
        (12, "CREATE TABLE deprecated (operatorbundle_name TEXT PRIMARY KEY)"),
    )
    return ";\n".join([*statements, *(statement for since, statement in later if level >= since), ""])


def _api_table(level: int, table: str) -> str:
    if level >= 6:
        return (
            f"CREATE TABLE {table} (group_name TEXT, version TEXT, kind TEXT, {_KEY}, "
            f"{_BUNDLE} DEFERRABLE INITIALLY DEFERRED, {_API} ON DELETE CASCADE)"
        )
    cascade, key = (" ON DELETE CASCADE", ", PRIMARY KEY (group_name, version, kind, channel_entry_id)")
    if level < 4:
        cascade = key = ""
    return (
        f"CREATE TABLE {table} (group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER{key}, "
        f"FOREIGN KEY (channel_entry_id) REFERENCES channel_entry (entry_id){cascade}, {_API})"
    )


def _trigger(table: str) -> str:
    same = "{0}.group_name = OLD.group_name AND {0}.version = OLD.version AND {0}.kind = OLD.kind"
    return (
        f"CREATE TRIGGER {table}_cleanup AFTER DELETE ON {table} WHEN NOT EXISTS "
        f"(SELECT 1 FROM api_provider JOIN api_requirer WHERE ({same.format('api_provider')}) "
        f"OR ({same.format('api_requirer')})) BEGIN DELETE FROM api WHERE {same.format('api')}; END"
    )


def write_old_database(path: Path, level: int, *, filled: bool = True, images: bool = True) -> None:
    """Write a database of a schema, with the rows and columns of `content` that the schema has."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(schema(level))
        if not filled:
            return
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, rows in content(level, images=images).items():
            if table in tables:
                known = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                for row in rows:
                    present = {column: value for column, value in row.items() if column in known}
                    marks = ", ".join("?" * len(present))
                    statement = f"INSERT INTO {table} ({', '.join(present)}) VALUES ({marks})"
                    connection.execute(statement, tuple(present.values()))


REQUIRED = {"name": "things.example.com", "version": "v1", "kind": "Thing"}
BUNDLES = {
    # name: version, image, replaces, skips, required
    "a.v1": ("1.0.0", "reg/a:1", "", "", ()),
    "a.v2": ("2.0.0", "reg/a:2", "a.v1", "a.v1.5,a.v1.6", ()),
    "a.v3": ("3.0.0", "reg/a:3", "a.v2", "", ()),
    "b.v1": ("1.0.0", None, "", "", (REQUIRED,)),
}
_ENTRIES = (
    # id, package, channel, bundle, replaces, depth
    (1, "a", "stable", "a.v3", 2, 0),
    (2, "a", "stable", "a.v2", 7, 1),
    (3, "a", "stable", "a.v1.5", None, 2),
    (4, "a", "stable", "a.v2", 3, 2),
    (5, "a", "stable", "a.v1.6", None, 3),
    (6, "a", "stable", "a.v2", 5, 3),
    (7, "a", "stable", "a.v1", None, 4),
    (8, "a", "old", "a.v1", None, 0),
    (9, "b", "stable", "b.v1", None, 0),
)


def _manifest(name: str, version: str, required: Iterable[dict[str, str]]) -> str:
    images = {"relatedImages": [{"name": "tool", "image": "reg/tool"}, {"name": "own", "image": f"reg/{name}"}]}
    container = {"name": "run", "image": f"reg/{name}"}
    deployment = {"name": "d", "spec": {"template": {"spec": {"containers": [container]}}}}
    install = {"strategy": "deployment", "spec": {"deployments": [deployment]}}
    crds = {"customresourcedefinitions": {"required": list(required)}}
    return json.dumps(
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "annotations": {"olm.skipRange": f"<{version}"}},
            "spec": {"version": version, "install": install, **images, **crds},
        }
    )


def content(level: int, *, images: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table, with the columns of all schemas."""
    tables: dict[str, list[dict[str, Any]]] = {
        "operatorbundle": [],
        "channel": [
            {"name": "stable", "package_name": "a", "head_operatorbundle_name": "a.v3"},
            {"name": "old", "package_name": "a", "head_operatorbundle_name": "a.v1"},
            {"name": "stable", "package_name": "b", "head_operatorbundle_name": "b.v1"},
        ],
        "package": [{"name": name, "default_channel": "stable"} for name in "ab"],
        "channel_entry": [
            {
                "entry_id": number,
                "package_name": package,
                "channel_name": channel,
                "operatorbundle_name": bundle,
                "replaces": replaces,
                "depth": depth,
            }
            for number, package, channel, bundle, replaces, depth in _ENTRIES
        ],
        "api": [
            {"group_name": "example.com", "version": "v1", "kind": kind, "plural": f"{kind.lower()}s"}
            for kind in ("Thing", "Other")
        ],
        "deprecated": [{"operatorbundle_name": "a.v2"}, {"operatorbundle_name": "a.v0"}],
    }
    for name, (version, image, replaces, skips, required) in BUNDLES.items():
        path = image if images else None
        columns = {"version": version, "bundlepath": path, "replaces": replaces, "skips": skips, "substitutesfor": ""}
        csv = _manifest(name, version, required)
        row = {"name": name, "csv": csv, "bundle": csv, "skiprange": f"<{version}", **columns}
        tables["operatorbundle"].append(row)
        key = {"operatorbundle_name": name, "operatorbundle_version": version, "operatorbundle_path": path}
        tables.setdefault("related_image", []).extend(
            {"image": related, "operatorbundle_name": name} for related in ("reg/tool", f"reg/{name}")
        )
        entries = [entry[0] for entry in _ENTRIES if entry[3] == name] if level < 6 else [None]
        for table, kinds in (
            ("api_provider", [] if required else ["Thing", "Other"]),
            ("api_requirer", ["Thing"] if required else []),
        ):
            tables.setdefault(table, []).extend(
                {"group_name": "example.com", "version": "v1", "kind": kind, "channel_entry_id": entry, **key}
                for kind in kinds
                for entry in entries
            )
        tables.setdefault("dependencies", []).extend(
            {"type": "olm.gvk", "value": json.dumps({"type": "olm.gvk", "kind": kind}).encode(), **key}
            for kind in (("Thing", "Other") if required else ())
        )
        package = json.dumps({"packageName": name[0], "version": version})
        properties = [("olm.package", package), *([("olm.deprecated", "{}")] if name == "a.v2" else [])]
        # In schema 9 the properties of packages had no image.
        property_key = key if level > 9 else {**key, "operatorbundle_path": None}
        tables.setdefault("properties", []).extend(
            {"type": kind, "value": value, **property_key} for kind, value in properties
        )
    return tables
