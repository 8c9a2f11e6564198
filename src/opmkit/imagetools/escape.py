"""Escaping of untrusted text for terminals and logs."""


def escape_controls(text: str) -> str:
    r"""Return the text on one line, with an escape such as ``\x1b`` or ``\n`` for each unprintable character.

    These are control characters (C0, C1), line and paragraph separators, bidirectional controls and surrogates, which
    a terminal may interpret as commands or display out of order. Backslashes are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
