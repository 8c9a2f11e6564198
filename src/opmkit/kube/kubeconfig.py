"""Kubeconfig files, merged as kubectl merges those in ``KUBECONFIG``."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from opmkit.core.files import read_limited
from opmkit.core.hints import Hint
from opmkit.documents import yaml_decoder
from opmkit.documents.errors import InvalidDocument
from opmkit.kube.connection import ClientCertificate, ClusterConnection, CredentialPlugin, Server, User
from opmkit.kube.errors import ClusterError
from opmkit.kube.hint_terms import ClusterSetting

_NOT_A_KUBECONFIG = "not a kubeconfig"
_ITEMS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_DIRECTORY = "directory of the kubeconfig"
"""Key under which an item records the directory that its relative paths start from; no field has spaces."""
_DEFAULT = Path("~/.kube/config")
_HEADER_CHARACTERS = "!#$&'*+^`|"
"""Characters of a header's name that `quote` would encode."""

Mapping = dict[str, Any]


def default_kubeconfig() -> str:
    """Return the kubeconfig files named by ``KUBECONFIG``, otherwise that of the user, or "" if it does not exist."""
    default = _DEFAULT.expanduser()
    return os.environ.get("KUBECONFIG", "") or (str(default) if default.is_file() else "")


def load_kubeconfig(paths: str, context: str = "") -> ClusterConnection:
    """Return a context of kubeconfig files.

    Args:
        paths: One or more files, separated as in ``KUBECONFIG``. Files that do not exist are ignored if one does.
        context: Name of the context, or "" for the current one.

    Raises:
        ClusterError: No file exists, one is invalid, or the context does not exist.
    """
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    existing = [path for path in files if path.is_file()]
    if not existing:
        raise ClusterError(
            f"kubeconfig {paths}: no such file",
            hint=Hint.any_of("check KUBECONFIG", Hint("check {}", ClusterSetting.KUBECONFIG)),
        )
    merged: Mapping = {"current-context": "", **{section: {} for section in _ITEMS}}
    for path in existing:
        _merge(merged, path, may_be_empty=len(existing) > 1)
    try:
        return _select(merged, context)
    except _InvalidError as error:
        raise _invalid(paths, str(error), error.hint) from error


class _InvalidError(Exception):
    def __init__(self, problem: str, hint: Hint | str = "") -> None:
        super().__init__(problem)
        self.hint = hint


def _invalid(paths: str, cause: str, hint: Hint | str = "") -> ClusterError:
    return ClusterError(
        f"invalid kubeconfig {paths}: {cause}", hint=hint or "check its current context, cluster and user"
    )


def _merge(merged: Mapping, path: Path, *, may_be_empty: bool) -> None:
    """Add the items of a file that are not in ``merged`` yet."""
    try:
        document = yaml_decoder.load(read_limited(path))
        if document is None and not may_be_empty:
            raise _InvalidError("the file is empty")
        config = _mapping(document or {}, "")
        merged["current-context"] = merged["current-context"] or _text(config, "current-context", "")
        for section, key in _ITEMS.items():
            for entry in _list(config, section, ""):
                item = _mapping(entry, f"{section}: ")
                content = _mapping(item.get(key) or {}, f"{section}: ")
                merged[section].setdefault(_text(item, "name", section), {**content, _DIRECTORY: path.parent})
    except InvalidDocument as error:
        raise ClusterError(f"invalid kubeconfig {error.located(str(path))}", hint="correct the YAML") from error
    except (OSError, ValueError) as error:
        raise _invalid(str(path), str(error) or _NOT_A_KUBECONFIG) from error
    except _InvalidError as error:
        raise _invalid(str(path), str(error), error.hint) from error


def _select(merged: Mapping, context: str) -> ClusterConnection:
    name = context or merged["current-context"]
    if not name:
        raise _InvalidError("current-context is not set", Hint("set it, or pass {}", ClusterSetting.CONTEXT))
    if name not in merged["contexts"]:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        raise _InvalidError(f"context {name!r} does not exist", f"choose one of its contexts: {known}")
    selected = merged["contexts"][name]
    where = f"context {name!r}"
    cluster_name, user_name = _text(selected, "cluster", where), _text(selected, "user", where)
    if cluster_name not in merged["clusters"]:
        raise _InvalidError(f"{where}: cluster {cluster_name!r} does not exist")
    if user_name and user_name not in merged["users"]:
        raise _InvalidError(f"{where}: user {user_name!r} does not exist")
    cluster, user = merged["clusters"][cluster_name], merged["users"].get(user_name, {})
    server = _server(cluster, f"cluster {cluster_name!r}")
    return ClusterConnection(
        server, _user(user, f"user {user_name!r}", cluster, server), _text(selected, "namespace", where) or "default"
    )


def _server(cluster: Mapping, where: str) -> Server:
    url = _text(cluster, "server", where)
    if not url:
        raise _InvalidError(f"{where}: server is not set")
    url, proxy = url if "://" in url else f"https://{url}", _text(cluster, "proxy-url", where)
    _check_url(url, f"{where}: server")
    if proxy:
        _check_url(proxy, f"{where}: proxy-url")
    return Server(
        urlsplit(url)._replace(query="", fragment="").geturl(),  # which client-go ignores; it can be a secret
        authorities=_pem(cluster, "certificate-authority", where),
        verify_tls=not _flag(cluster, "insecure-skip-tls-verify", where),
        tls_name=_text(cluster, "tls-server-name", where),
        proxy=proxy,
    )


def _check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        is_valid = False
    if not is_valid:  # the URL, which can contain a password, is not part of the message
        raise _InvalidError(f"{where}: invalid URL")


def _user(user: Mapping, where: str, cluster: Mapping, server: Server) -> User:
    certificate, key = _pem(user, "client-certificate", where), _pem(user, "client-key", where)
    token_file = _text(user, "tokenFile", where)
    return User(
        token=_text(user, "token", where) or _provider_token(user, where),
        token_file=user[_DIRECTORY] / token_file if token_file else None,
        name=_text(user, "username", where),
        password=_text(user, "password", where),
        certificate=ClientCertificate(certificate, key or certificate) if certificate else None,
        plugin=_plugin(user, where, cluster, server) if user.get("exec") else None,
        impersonation=_impersonation(user, where),
    )


def _provider_token(user: Mapping, where: str) -> str:
    """Return the token that a removed ``auth-provider`` stored, "" without one."""
    provider = _mapping(user.get("auth-provider") or {}, f"{where}: auth-provider: ")
    if not provider:
        return ""
    config = _mapping(provider.get("config") or {}, f"{where}: auth-provider: ")
    token = _text(config, "id-token", where) or _text(config, "access-token", where)
    if not token:
        raise _InvalidError(
            f"{where}: unsupported auth-provider {_text(provider, 'name', where)!r}",
            "use a credential plugin (exec) in its place, or a token",
        )
    return token


def _impersonation(user: Mapping, where: str) -> tuple[tuple[str, str], ...]:
    name = _text(user, "as", where)
    groups = [_string(group, f"{where}: as-groups") for group in _list(user, "as-groups", where)]
    uid, extra = _text(user, "as-uid", where), _mapping(user.get("as-user-extra") or {}, f"{where}: as-user-extra: ")
    return (
        *((("Impersonate-User", name),) if name else ()),
        *(("Impersonate-Group", group) for group in groups),
        *((("Impersonate-Uid", uid),) if uid else ()),
        *(
            (f"Impersonate-Extra-{quote(str(key), safe=_HEADER_CHARACTERS)}", _string(value, f"{where}: as-user-extra"))
            for key in extra
            for value in _list(extra, key, f"{where}: as-user-extra")
        ),
    )


def _plugin(user: Mapping, where: str, cluster: Mapping, server: Server) -> CredentialPlugin:
    where = f"{where}: exec"
    plugin = _mapping(user["exec"], f"{where}: ")
    command = _text(plugin, "command", where)
    if not command:
        raise _InvalidError(f"{where}: command is not set")
    if "/" in command:
        command = str((user[_DIRECTORY] / command).absolute())  # "./x" would become "x", a name to look up
    variables = [_mapping(entry, f"{where}: env: ") for entry in _list(plugin, "env", where)]
    description = None
    if _flag(plugin, "provideClusterInfo", where):
        authorities = base64.b64encode(server.authorities.encode()).decode()
        description = {
            "server": server.url,
            "insecure-skip-tls-verify": not server.verify_tls,
            **({"certificate-authority-data": authorities} if authorities else {}),
            **({"tls-server-name": server.tls_name} if server.tls_name else {}),
            **({"proxy-url": server.proxy} if server.proxy else {}),
            "config": _plugin_config(cluster),
        }
    return CredentialPlugin(
        command,
        tuple(_string(argument, f"{where}: args") for argument in _list(plugin, "args", where)),
        {_text(entry, "name", where): _text(entry, "value", where) for entry in variables},
        _text(plugin, "apiVersion", where),
        _text(plugin, "installHint", where),
        description,
        interactive=_text(plugin, "interactiveMode", where) != "Never",
    )


def _plugin_config(cluster: Mapping) -> object:
    """Return the extension of a cluster that is meant for credential plugins."""
    extensions = [entry for entry in cluster.get("extensions") or [] if isinstance(entry, dict)]
    name = "client.authentication.k8s.io/exec"
    return next((entry.get("extension") for entry in extensions if entry.get("name") == name), None)


def _pem(item: Mapping, key: str, where: str) -> str:
    """Return the PEM data of ``key-data`` or of the file ``key``, "" without either."""
    data, file = _text(item, f"{key}-data", where), _text(item, key, where)
    try:
        if data:
            return base64.b64decode(data, validate=False).decode("ascii")
        return read_limited(Path(item[_DIRECTORY], file)).decode("ascii") if file else ""
    except OSError as error:
        raise _InvalidError(f"{where}: {key} {file}: {error.strerror}") from error
    except (binascii.Error, ValueError) as error:
        raise _InvalidError(f"{where}: {key}: not in PEM format") from error


def _mapping(value: object, where: str) -> Mapping:
    if not isinstance(value, dict):
        raise _InvalidError(f"{where}{_NOT_A_KUBECONFIG if not where else 'not a mapping'}")
    return value


def _list(item: Mapping, key: str, where: str) -> list[Any]:
    value = item.get(key) or []
    if not isinstance(value, list):
        raise _InvalidError(f"{where}: {key}: not a list" if where else f"{_NOT_A_KUBECONFIG}: {key} is not a list")
    return value


def _text(item: Mapping, key: str, where: str) -> str:
    return _string(item.get(key) or "", f"{where}: {key}" if where else key)


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _InvalidError(f"{where}: not a string")
    return value


def _flag(item: Mapping, key: str, where: str) -> bool:
    value = item.get(key) or False
    if not isinstance(value, bool):
        raise _InvalidError(f"{where}: {key}: not a boolean")
    return value
