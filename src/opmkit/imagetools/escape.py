"""Visible escapes for text that comes from images, databases, catalogs, registries and other programs."""


def escape_controls(text: str) -> str:
    r"""Return the text on one line, with an escape such as ``\x1b`` or ``\n`` for each unprintable character.

    These are the control characters (C0, C1), line and paragraph separators, controls of the writing direction and
    surrogates: a terminal may take them for commands, or show the text in another order. Backslashes stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
