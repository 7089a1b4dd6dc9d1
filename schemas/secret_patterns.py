"""What a secret looks like: one table row per kind, in RE2 syntax over UTF-8 bytes.

Each row has two forms. ``strict`` finds the secret in decoded text, with the word boundaries that keep false alarms
rare. ``loose`` matches, somewhere in the encoded bytes of a message, whenever ``strict`` would match in one of its
texts: it knows no boundaries (the length byte before an Avro string may be a letter) and tolerates JSON escapes. It
decides which messages are looked at, and masks dead letters, where covering too much is the safe side.

The formats are those that the issuers publish for their keys. A format without a fixed mark, such as 32 hex digits, is
no row: it would also catch digests and trace ids, and equality of those is evidence.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

Accept = Callable[[bytes, int, int], bool]
"""Whether ``text[start:end]``, which ``strict`` matched, really is a secret."""


def always(_text: bytes, _start: int, _end: int) -> bool:
    """Take every match."""
    return True


@dataclass(frozen=True)
class Pattern:
    r"""One kind of secret. The first group that took part in a match is the secret, else the whole match is.

    ``kind`` is lower case letters, digits and ``_``: it is part of the digest that replaces the secret. Negated
    character classes must exclude ``\xff``, which stands for text that is redacted already.
    """

    kind: str
    strict: str
    loose: str
    accept: Accept = always
    """Tells the secrets among the matches of ``strict``."""
    covers: Accept = always
    """Tells what a dead letter is masked of among the matches of ``loose``."""
    sifted: bool = False
    """Whether ordinary text often matches ``loose``, so that ``covers`` is asked before a message is suspicious."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", self.kind):
            raise ValueError(f"the kind of a pattern must be lower case letters, digits and _: {self.kind!r}")


# ASCII letters that JSON writers escape although they need not (Go, .NET, Gson); `loose` forms read these for what
# they stand for, so that such a writer does not make every one of its events look suspicious.
ESCAPED_ASCII = r"(?i:\\u00(?:2[013-589ac-f]|3[0-9f]|[4-5][0-9a-f]|6[1-9a-f]|7[0-9a-e]))"
"""An escape that could hide a letter of a pattern from every other ``loose`` form."""

_GAP = r"""(?:[\s"']|\\+(?:u00[0-9a-fA-F]{2}|[nrt])?)*"""
_EVEN_BYTE = "[" + "".join(rf"\x{byte:02x}" for byte in range(0, 128, 2)) + "]"
# In an Avro map the key is followed by the zigzag length of its value, which is JSON text.
_AVRO_LENGTH = rf"(?:{_EVEN_BYTE}|[\x80-\xff]{{1,4}}[\x00-\x7f])"
_LOOSE_SEPARATOR = r"(?:[:=]|\\+(?i:u003[ad]))(?:[=>]|\\+(?i:u003[de]))?"
_SEPARATOR = r"""["']?[ \t]{0,4}(?::=|=>|:|=)\s{0,4}"""
_QUOTED = r"""[bfruBFRU]{0,2}(?:"((?:[^"\\\xff]|\\[^\xff])+)|'((?:[^'\\\xff]|\\[^\xff])+))"""
# A full stop or bracket after a value is not a part of it, or equal values would not be equal.
_BARE = r"""([^\s"'&;<>\\\x00-\x1f\x7f\xff]{3,}[^\s"'&;<>\\\x00-\x1f\x7f\xff.,)\]}])"""
_QUERY_VALUE = r"""([^\s"'&;<>\\#\x00-\x1f\x7f\xff]*[^\s"'&;<>\\#\x00-\x1f\x7f\xff.,)\]}])"""

_PASSWORD_NAME = r"(?i:pass(?:word|wd|phrase|code)|pwd)"  # noqa: S105  # a pattern
_SECRET_NAME = (
    r"(?i:secret(?:[_-]?(?:access[_-]?)?key)?"  # noqa: S105  # a pattern
    r"|(?:api|access|account|private|encryption|signing|subscription)[_-]?key)"
)
_OWNER = (
    r"(?i:access|refresh|id|auth|session|api|bot|bearer|secret|security|private|personal|csrf|xsrf|oauth|service|deploy"
    r"|user|client|github|gitlab|slack)[_-]?"
)
_TOKEN_NAME = rf"(?:\b|{_OWNER}|[A-Z0-9]_)(?i:token)"
_ISSUED = r"[A-Za-z0-9_./+=~%:|-]{8,}"
# At least a letter, so that the contract's own `fencing_token` numbers do not count.
_LOOSE_ISSUED = r"(?:[0-9]+[A-Za-z_./+=~%:|\\-]|[A-Za-z_./+=~%:|\\-][A-Za-z0-9_./+=~%:|\\-]{5})"

_PLACEHOLDER = re.compile(
    rb"\$?\{\{?[\w. -]*\}?\}|\$\(?[A-Z_]+\)?|<[A-Za-z_ -]+>|%\(?[a-z_]*\)?s|[*.\-#xX\xe2\x80\xa2]+"
    rb"|null|none|nil|true|false|undefined|redacted|\[[A-Z_ ]+\]|string|str",
    re.IGNORECASE,
)
_MORE_THAN_A_NAME = re.compile(rb"[0-9!@#$%^*~+]")
_LETTER, _DIGIT = re.compile(rb"[A-Za-z]"), re.compile(rb"[0-9]")


def _no_placeholder(text: bytes, start: int, end: int) -> bool:
    """Documentation and templates name a secret without holding one."""
    return not _PLACEHOLDER.fullmatch(text, start, end)


def _more_than_a_name(text: bytes, start: int, end: int) -> bool:
    """Without quotes, ``password=args.password`` and "password: required" are code and prose, not secrets."""
    return bool(_MORE_THAN_A_NAME.search(text, start, end)) and _no_placeholder(text, start, end)


def _letter_and_digit(text: bytes, start: int, end: int) -> bool:
    return bool(_LETTER.search(text, start, end) and _DIGIT.search(text, start, end))


def _has_digit(text: bytes, start: int, end: int) -> bool:
    """Issued keys are random; a name that happens to have their shape has no digits."""
    return bool(_DIGIT.search(text, start, end))


def _long_and_quoted(text: bytes, start: int, end: int) -> bool:
    value = text[start:end]
    return end - start >= 6 and not any(space in value for space in b" \t\n") and _no_placeholder(text, start, end)


def _is_credentials(text: bytes, start: int, end: int) -> bool:
    """Whether the text is the base64 of ``user:password``."""
    try:
        value = base64.b64decode(text[start:end] + b"==")
    except binascii.Error:
        return False
    return end - start >= 8 and b":" in value and value.isascii()


def luhn(digits: bytes) -> bool:
    """Whether the check digit of a payment card number (ISO/IEC 7812) is right; separators are skipped."""
    values = [byte - 48 for byte in reversed(digits) if 48 <= byte <= 57]
    doubled = (value * 2 - 9 * (value > 4) for value in values[1::2])
    return (sum(values[::2]) + sum(doubled)) % 10 == 0


def _is_card(text: bytes, start: int, end: int) -> bool:
    return luhn(text[start:end])


def _starts_with_card(text: bytes, start: int, end: int) -> bool:
    """Whether it is a card but for what follows: the byte after an Avro string may be a digit."""
    shortest = min(end, start + 16)
    return any(luhn(text[start:cut]) for cut in range(shortest, end + 1))


def _key(kind: str, shape: str, accept: Accept = always) -> Pattern:
    """Make the row of a key that its issuer marks with a prefix, which ordinary words may end in."""
    return Pattern(kind, rf"\b{shape}", shape, accept, accept)


def _marked(kind: str, shape: str) -> Pattern:
    """Make the row of a key whose prefix is no part of any word, so that it may follow anything."""
    return Pattern(kind, shape, shape)


def _pair(kind: str, key: str, value: str, loose: str, accept: Accept) -> Pattern:
    """Make the row of a value that its name makes a secret: ``name = value``, ``"name": "value"``."""
    return Pattern(kind, rf"{key}{_SEPARATOR}{value}", loose, accept)


def _loose_pair(key: str) -> str:
    """Make a form whose secret is the value in an Avro map, and empty elsewhere: ``strict`` needs no help there."""
    return rf"""{key}(?:{_GAP}{_LOOSE_SEPARATOR}()|{_AVRO_LENGTH}"([^"\x00-\x1f\x7f]*))"""


def _loose_token() -> str:
    value = rf"({_LOOSE_ISSUED}[A-Za-z0-9_./+=~%:|\\-]*)"
    return rf"(?i:token)(?:{_GAP}{_LOOSE_SEPARATOR}{_GAP}|{_AVRO_LENGTH}\"){value}"


_LOOSE_PASSWORD, _LOOSE_SECRET, _LOOSE_TOKEN = (
    _loose_pair(_PASSWORD_NAME),
    _loose_pair(_SECRET_NAME),
    _loose_token(),
)
_LOOSE_BASE64 = r"(?:[A-Za-z0-9+/=]|\\+(?:/|u00))"
_SCHEME = r"(?i:bearer|basic|token|apikey|digest|negotiate)"
_BLANK, _LOOSE_BLANK = r"[ \t]{1,4}", r"(?:[ \t]|\\+t|\\+u0009)+"
_PEM_BEGIN, _PEM_END = r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----", r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY"
_PEM_REST = r"(?:(?:[A-Za-z0-9+/= \r\n]|\\+[nr])*[A-Za-z0-9+/=])?"
_CARD = (
    r"(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6011|6[245][0-9]{2}|35[0-9]{2})[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}"
    r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}"
    r"|3(?:0[0-5]|[68][0-9])[0-9][ -]?[0-9]{6}[ -]?[0-9]{4}"
    r"|62[0-9]{14,17}"
)
# A card number stands alone: a part of a longer number, of an id or of a decimal fraction is none.
_BEFORE_CARD = r"(?:^|[^A-Za-z0-9_.,-]|[^0-9][.,-])"
_AFTER_CARD = r"(?:$|[^A-Za-z0-9_.-]|\.(?:$|[^0-9])|-(?:$|[^A-Za-z0-9]))"

DEFAULT_PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "private_key",
        # Up to the next dashes only, or a row of beginnings without an end would cost time squared.
        rf"({_PEM_BEGIN}(?:[^\xff-]|-[^\xff-])*{_PEM_END}(?: BLOCK)?-----|{_PEM_BEGIN}{_PEM_REST})",
        rf"({_PEM_BEGIN}{_PEM_REST})",
    ),
    _key("anthropic_key", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    _key("openai_key", r"sk-[A-Za-z0-9_-]{20,}", _has_digit),
    _marked("aws_access_key", r"(?:AKIA|ASIA)[A-Z0-9]{16,}"),
    _marked("github_token", r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    _marked("gitlab_token", r"glpat-[A-Za-z0-9_-]{20,}"),
    _key("slack_token", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}", _has_digit),
    Pattern(
        "slack_webhook",
        r"hooks\.slack\.com/services/([A-Za-z0-9/_-]{20,})",
        r"hooks\.slack\.com\\*/services\\*/([A-Za-z0-9/_\\-]{20,})",
    ),
    _marked("google_key", r"AIza[A-Za-z0-9_-]{35,}"),
    _key("google_key", r"(?:GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,})"),
    _key("stripe_key", r"(?:[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9]{24,})"),
    _key("huggingface_token", r"hf_[A-Za-z0-9]{30,}"),
    _key("groq_key", r"gsk_[A-Za-z0-9]{40,}"),
    _key("npm_token", r"npm_[A-Za-z0-9]{36,}"),
    _key("sendgrid_key", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _marked("jwt", r"eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*){2,4}"),
    Pattern(
        "authorization",
        rf"(?i:authorization){_SEPARATOR}[\"']?{_SCHEME}{_BLANK}([^\s\"'\\,;<>\x00-\x1f\x7f\xff]{{4,}})",
        rf"(?i:authorization){_GAP}{_LOOSE_SEPARATOR}{_GAP}{_SCHEME}{_LOOSE_BLANK}()",
        _no_placeholder,
    ),
    Pattern(
        "bearer_token",
        rf"\b(?i:bearer){_BLANK}([A-Za-z0-9._~+/-]{{16,}}=*)",
        rf"(?i:bearer){_LOOSE_BLANK}([A-Za-z0-9._~+/\\-]{{16,}}=*)",
        _has_digit,
        _has_digit,
    ),
    Pattern(
        "basic_credentials",
        rf"\b(?i:basic){_BLANK}([A-Za-z0-9+/]+[A-Z0-9+/=][A-Za-z0-9+/]*=*)",
        rf"(?i:basic){_LOOSE_BLANK}({_LOOSE_BASE64}+(?:[A-Z0-9+/=]|\\+(?:/|u00)){_LOOSE_BASE64}*)",
        _is_credentials,
        _is_credentials,
    ),
    Pattern(
        "url_password",
        r"""://[^\s:/@"'<>\\\x00-\x1f\x7f\xff]*:([^\s/@"'<>\\\x00-\x1f\x7f\xff]+)@""",
        r"""(?::|\\+(?i:u003a))\\*/\\*/[^\s:/@"'<>\x00-\x1f\x7f]*(?::|\\+(?i:u003a))([^\s/@"'<>\x00-\x1f\x7f]+)@""",
        _no_placeholder,
    ),
    _pair("password", _PASSWORD_NAME, _QUOTED, _LOOSE_PASSWORD, _no_placeholder),
    _pair("password", _PASSWORD_NAME, _BARE, _LOOSE_PASSWORD, _more_than_a_name),
    _pair("secret", _SECRET_NAME, _QUOTED, _LOOSE_SECRET, _long_and_quoted),
    _pair("secret", _SECRET_NAME, r"([A-Za-z0-9_./+=~%:|-]{8,})", _LOOSE_SECRET, _letter_and_digit),
    Pattern(
        "token",
        rf"{_TOKEN_NAME}{_SEPARATOR}[\"']?({_ISSUED})",
        _LOOSE_TOKEN,
        _letter_and_digit,
        _letter_and_digit,
    ),
    Pattern("password", rf"[?&](?i:[a-z0-9_-]*){_PASSWORD_NAME}={_QUERY_VALUE}", _LOOSE_PASSWORD, _no_placeholder),
    Pattern("secret", rf"[?&](?i:[a-z0-9_-]*){_SECRET_NAME}={_QUERY_VALUE}", _LOOSE_SECRET, _no_placeholder),
    Pattern("card_code", r"""\b(?i:cv[vc]2?)["']?\s{0,4}[:=]\s{0,4}["']?([0-9]{3,4})\b""",
            rf"(?i:cv[vc]2?)(?:{_GAP}{_LOOSE_SEPARATOR}{_GAP}|{_AVRO_LENGTH}\")([0-9]*)"),
    Pattern("payment_card", rf"{_BEFORE_CARD}({_CARD}){_AFTER_CARD}", _CARD, _is_card, _starts_with_card, sifted=True),
)  # fmt: skip
"""What is masked unless a caller brings its own table. Order breaks ties: the first of two equal matches names it."""
