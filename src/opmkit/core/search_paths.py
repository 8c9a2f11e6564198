"""Where modules and programs are searched: never in the working directory, which can be a checkout that nobody trusts.

Python imports from the working directory for ``python -m`` and ``python -c``, and for empty and relative entries of
``PYTHONPATH``; a checkout can be named by absolute ones. Such entries of ``PATH`` let programs be found there.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_INSTALLATION = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - pathlib is slow to import
"""The entry of ``sys.path`` with this package: its code runs already."""
_BOOTSTRAP = (
    "import sys; path = {path}; sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]; "
    "import runpy; runpy.run_module({module}, run_name='__main__', alter_sys=True)"
)


def restrict_search_paths() -> None:
    """Remove the checkout from ``sys.path``, and relative entries from the ``PATH`` of this process and its programs.

    The interpreter makes entries of ``PYTHONPATH`` absolute before the first module is imported, so that they are only
    recognized by the variable. Other entries are those of the installation, which can be a ``.venv`` in the checkout.
    """
    given = os.environ.get("PYTHONPATH")
    entries = given.split(os.pathsep) if given and not sys.flags.ignore_environment else []
    working = _working_directory()
    checkout = _checkout(working) if entries else ""

    def is_untrusted(entry: str) -> bool:
        inside = checkout and os.path.realpath(entry).startswith(f"{checkout}/")
        return bool(inside) or not os.path.isabs(entry) or _is_same(entry, working) or _is_same(entry, checkout)  # noqa: PTH117

    removed = {os.path.abspath(entry) for entry in entries if is_untrusted(entry)}  # noqa: PTH100
    sys.path[:] = [entry for entry in _absolute(sys.path) if entry not in removed or entry == _INSTALLATION]
    if "PATH" in os.environ:
        os.environ["PATH"] = os.pathsep.join(_program_directories(os.environ))


def find_program(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of a program in ``PATH``, None if it is not there. A name with a slash is a path already."""
    if os.sep in name:
        return name
    for directory in _program_directories(environ):
        path = os.path.join(directory, name)  # noqa: PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    return None


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module as a program, with the interpreter and the modules of this process.

    It imports from where this process does, however opmkit is installed, except for the working directory.
    """
    working = _working_directory()
    path = [entry for entry in _absolute(sys.path) if entry == _INSTALLATION or not _is_same(entry, working)]
    # -I would leave out the site directory of the user, and modules that its files make importable.
    flags = ["-E", "-P", *["-s"] * bool(sys.flags.no_user_site), *["-B"] * sys.dont_write_bytecode]
    return [sys.executable, *flags, "-c", _BOOTSTRAP.format(path=ascii(path), module=ascii(module)), *arguments]


def _program_directories(environ: Mapping[str, str]) -> list[str]:
    """Return the absolute entries of ``PATH``, or the default of the system without any."""
    return _absolute(environ.get("PATH", "").split(os.pathsep)) or os.defpath.split(os.pathsep)


def _absolute(entries: Iterable[str]) -> list[str]:
    return [entry for entry in entries if os.path.isabs(entry)]  # noqa: PTH117


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it has been removed
        return ""


def _checkout(working: str) -> str:
    """Return the root of the repository with the working directory, or the latter in none; "" if that is no checkout.

    What is in a home directory was written by its user.
    """
    root, owned = working, ("", os.sep, os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111
    while root not in owned and not os.path.lexists(f"{root}/.git"):
        root = os.path.dirname(root)  # noqa: PTH120
    checkout = working if root in owned else root
    return "" if checkout in owned else checkout


def _is_same(directory: str, working: str) -> bool:
    return os.path.realpath(directory) == working
