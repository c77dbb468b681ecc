"""Text from outside, made safe to show.

Class names, file names and the messages of other libraries may hold anything: terminal escapes,
line breaks, text that reads from right to left, bytes that are no text at all.
"""

from __future__ import annotations

#: Joiners that some scripts need to be spelled right; they change nothing but the letters.
_JOINERS = "\u200c\u200d"


def printable(text: object) -> str:
    """One line that a terminal shows as it is: what it could obey is written as an escape.

    >>> printable("cat\\x1b[2J\\ndog")
    'cat\\\\x1b[2J\\\\ndog'
    >>> printable("Sjöbjörn")
    'Sjöbjörn'
    """
    line = str(text)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() or c in _JOINERS else _escaped(c) for c in line)


def printable_lines(text: object) -> str:
    """The same for text of several lines, whose line breaks are ours."""
    return "\n".join(map(printable, str(text).split("\n")))


def shown(value: object, length: int = 60) -> str:
    """A value as a message quotes it: its repr, safe to print, cut where it is long.

    >>> shown("a" * 100, 10)
    "'aaaaaaaaa..."
    >>> shown(10**9999)
    'a number of about 9,999 digits'
    """
    if isinstance(value, int) and abs(value) >= 10**length:
        # Python refuses to write very long ones.
        return f"a number of about {value.bit_length() * 0.30103:,.0f} digits"
    try:
        line = printable(" ".join(repr(value).split()))
    except Exception:  # whatever someone's repr raises
        line = f"a value of type {type(value).__name__}"
    return line if len(line) <= length + 3 else f"{line[:length]}..."


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # how Python keeps a byte of a name that is no text
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
