"""``opm template``: render catalog templates."""

from __future__ import annotations

from opmkit.cli.commands.template_render import render

COMMANDS = (("render", render),)
