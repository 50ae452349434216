"""Tests that tell a secret from what merely stands where a secret could stand."""

from __future__ import annotations

import base64
import binascii
import itertools
import math
import re
from collections.abc import Callable

from sams_core.redaction.engine import Shape

_UUID = Shape(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NUMBER = Shape(
    r"[+\-~<>=v#$€]{0,2}[0-9][0-9.,:/_%+\-]*(?:[TZ][0-9.:+\-]*Z?)?"
    r"(?:[kKMGT]?i?[bB]?|ms|us|ns|s|sec|secs|m|min|mins|h|hrs?|d|days?|w|weeks?|y|yrs?|px|em|rem|x)?"
)
_REFERENCE = Shape(
    r"\$[A-Za-z_{(].*|%[A-Za-z_(].*|\{\{.*|\{[^}]*\}|<.*|\[.*\]|@.*@|&[A-Za-z_]\w*|\*[A-Za-z_]\w*"
    r"|!?(?:Ref|Sub|GetAtt|vault|secret|env|var|file|sops)\b.*|.*\$\{.*|.*\{\{.*"
    r"|[A-Za-z_][\w.:\->]*\(.*|[A-Za-z_][\w.\->]*\[.*"
    r"|(?:self|this|os|env|process|config|settings|secrets|vars|var|local|data|args|ctx|params|request"
    r"|options|opts|props|state|app|module|each|output|import\.meta)(?:\??[.:]{1,2}|->)[A-Za-z_].*"
    r"|(?:https?|wss?|ftp|s3|gs|file|git|ssh|op|vault|awssm|gcpsm|ref\+\w+|docker|urn|oci)://.*"
    r"|(?:arn|urn):.*|projects/.*|/?[\w.~\-]+(?:/[\w.\-]+)+\.[a-z]{2,5}"
    r"|(?:~|\.{1,2}|[A-Za-z]:)?[/\\][A-Za-z.~].*"
    r"|(?:sha(?:1|256|384|512)|md5)[-:].*"
)
_SAMPLE = Shape(
    r"(?i)"
    r"(?:your|my|the|our|some|an?|insert|enter|replace|put|add|paste|use|set|see|ask|change|fill|new)"
    r"[-_ ].*|your\w*|(?:change|replace|fill)[-_]?me\W?"
    r"|.*(?:[-_ ](?:here|goes|placeholder|example|sample|removed|redacted|omitted)|\.\.\.|…).*"
    r"|(?:example|sample|dummy|fake|placeholder|redacted|masked|hidden|removed)\W?\w{0,8}"
)
_SAMPLE_CAPS = Shape(r"[A-Z]+(?:_[A-Z]+)+")
_CODE_WORD = Shape(r"[A-Za-z_]+(?:(?:[._\-/:]|->|::)[A-Za-z_]+)*[?!]?")
_CAMEL = Shape(r"[a-z]+(?:[A-Z][a-z]+)+|(?:[A-Z][a-z]+)+")
_TICKET = Shape(r"[A-Z]{2,10}-[0-9]{1,7}")
_FILE = Shape(r".*\.[a-z][a-z0-9]{1,4}(?::[0-9]+)*")
_TERM = Shape(
    r"(?i)(?:[a-z]+[-_ ])*(?:sha|aes|rsa|hmac|hs|rs|es|ps|md|base|utf|iso|rfc|oauth|http|tls|ssl|x|ecdsa|"
    r"ed|curve|pbkdf|argon|scrypt|bcrypt|python|java|node|php|postgres(?:ql)?|mysql|redis|windows|"
    r"win|ubuntu|ipv|web|log4j|k8s|s3|ec2|h264|oidc|saml|fido|u2f|pkcs#?|cve)[-_ ]?[0-9.]+"
    r"(?:mb4)?(?:[-_ ][0-9a-z]{1,7})*"
)
_VERSION = Shape(r"(?i)v?[0-9]+(?:\.[0-9]+)+(?:[-+.]?[a-z]+[.\-]?[0-9]*)*")
_REGION = Shape(r"[a-z]+(?:-[a-z]+)+-?[0-9]{1,2}[a-z]?")
# One question to RE2 where several would be asked.
_PLACEHOLDER = Shape.any_of(_SAMPLE, _SAMPLE_CAPS)
_NAMED = Shape.any_of(_REFERENCE, _PLACEHOLDER)
_LABEL = Shape.any_of(_UUID, _REFERENCE, _NUMBER)
_TERMS = Shape.any_of(_TICKET, _VERSION, _TERM, _REGION, _FILE, _NUMBER)
_WORDS = Shape.any_of(_CODE_WORD, _CAMEL)
_SEGMENT = re.compile(r"[^A-Za-z0-9]+")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}", re.I)
WORDS = frozenset(
    """true false yes no on off null nil none undefined void empty unset default auto required optional
    mandatory hidden visible masked secret secrets password passwords passwd pwd pass passwort token
    tokens key keys bearer basic digest text string str bytes int integer bool boolean float number
    object array list dict any unknown missing expired invalid valid wrong correct incorrect enabled
    disabled rotated changed unchanged reset forgotten stored saved encrypted hashed plaintext strong
    weak temporary permanent same see todo tbd fixme n/a na here there this that these those it its the
    and for from with without must should cannot never always not only also just when where who what why
    how which nobody nothing everyone everything something someone anyone anything are was were has have
    had been will would could may might can into onto over under about after before because until while
    manual automatic generated provided configured environment vault keychain keyring manager admin
    user users username login email name value type field input file path url uri header cookie json yaml
    public private internal external local global shared readonly readwrite read write char varchar
    nullable optional-string securestring secretstr sensitive protected confidential unlimited pending
    active inactive revoked leaked compromised deprecated removed deleted okay ok done fine""".split()
)
HASH_WORDS = re.compile(
    rb"(?i)\b(?:commit|sha-?\d*|hash(?:es|ed)?|digest|checksum|md5|etag|revision|build|trace|span|"
    rb"request|order|image|layer|blob|tree|fingerprint|uuid|guid|cache|object|page|trace_?id|version|"
    rb"integrity|merge|branch|tag|nonce|correlation|transaction)\b"
)


def entropy(value: str) -> float:
    """Return the Shannon entropy of `value` in bits a character."""
    size = len(value)
    if not size:
        return 0.0
    counts = map(value.count, set(value))
    # Rounded, so that the order of the sum decides nothing at a threshold.
    return round(math.log2(size) - sum([n * math.log2(n) for n in counts]) / size, 9)


def is_uuid(value: str) -> bool:
    """Tell whether `value` has the 8-4-4-4-12 form."""
    return _UUID.fits(value)


def is_masked(value: str) -> bool:
    """Tell whether `value` is a row of stars, dots or one repeated letter."""
    return len(set(value.lower())) <= 2


def is_placeholder(value: str) -> bool:
    """Tell whether `value` stands for a secret that somebody has yet to fill in."""
    return is_masked(value) or _PLACEHOLDER.fits(value)


def is_named(value: str) -> bool:
    """Tell whether `value` isn't a secret but says where one is, or that one is yet to be filled in."""
    return is_masked(value) or _NAMED.fits(value)


def is_number(value: str) -> bool:
    """Tell whether `value` is a number, a date, a time, a version or a quantity."""
    return _NUMBER.fits(value)


def is_wordy(value: str) -> bool:
    """Tell whether `value` is made of words: `bearer`, `user-name`, `config.password`."""
    if value.lower() in WORDS:
        return True
    if value.isascii():
        return _WORDS.fits(value) and not _scrambled(value)
    return value.replace("-", "").isalpha()


def _scrambled(letters: str) -> bool:
    """Tell whether a run of letters changes case or piles up consonants as no word does."""
    if len(letters) < 12:
        return False
    turns = sum(a.isupper() != b.isupper() for a, b in itertools.pairwise(letters))
    return turns > len(letters) // 3 or (
        bool(_CONSONANTS.search(letters)) and entropy(letters) > 3.3
    )


def _mixed(value: str) -> bool:
    return any(map(str.isalpha, value)) and any(map(str.isdigit, value))


def is_term(value: str) -> bool:
    """Tell whether `value` is a technical word with digits: a ticket, version, file, algorithm."""
    return _TERMS.fits(value)


def is_password(value: str, *, sure: bool) -> bool:
    """Tell whether `value` is a password, given that it stands where one is set.

    `sure` means that the form leaves little doubt (quoted, or alone behind an equals sign), so that
    a plain word counts too.
    """
    if not 4 <= len(value) <= 512 or is_named(value):
        return False
    if value.lower().strip("!?.*:;,") in WORDS:
        return False
    if is_number(value):
        return (value.isdigit() and len(value) >= 6) or (sure and value.isdigit())
    if is_wordy(value):
        return sure and len(value) >= 5
    return sure or not is_term(value) or len(value) >= 20


def is_secret(value: str, *, strong: bool) -> bool:
    """Tell whether `value` is a token, given that it stands where one is set.

    `strong` means that the name leaves little doubt (`api_key`), otherwise (`row_key`) the value
    must be long and look random.
    """
    if not 8 <= len(value) <= 4096 or is_named(value):
        return False
    if is_number(value):
        return False
    if not strong:
        return len(value) >= 16 and is_random(value)
    if is_uuid(value):
        return True
    if is_wordy(value) or (is_term(value) and len(value) < 24):
        return False
    return entropy(value) >= 2.5 and (_mixed(value) or len(value) >= 16)


def is_random(value: str, *, least: int = 16) -> bool:
    """Tell whether `value` looks random by itself: digits among letters in one long stretch."""
    if len(value) < least or sum(map(str.isdigit, value)) < 2:
        return False
    return (
        any(
            _mixed(part)
            and (len(part) >= 12 or (len(part) >= 8 and not (part.islower() or part.isupper())))
            for part in _SEGMENT.split(value)
        )
        and sum(map(str.isalpha, value)) >= 3
        and entropy(value) >= 3.0
        and not _LABEL.fits(value)
    )


def is_hex(value: str) -> bool:
    """Tell whether `value` could be a digest."""
    return all(char in "0123456789abcdefABCDEF" for char in value)


def is_spoken(value: str) -> bool:
    """Tell whether `value` is a password, given that a sentence says one comes here."""
    if not 5 <= len(value) <= 256 or is_named(value):
        return False
    if value.lower() in WORDS or is_number(value) or (is_term(value) and len(value) < 20):
        return False
    if _mixed(value):
        return not is_uuid(value)
    symbols = any(not char.isalnum() and char not in "-_.'/:," for char in value[:-1])
    inner = value[1:]
    shouting = value.isupper()
    return (symbols and not is_wordy(value)) or (
        len(value) >= 8
        and any(map(str.isupper, inner))
        and not shouting
        and (not _CAMEL.fits(value) or _scrambled(value))
    )


def _token(value: str) -> bool:
    return is_secret(value, strong=True)


def _password(value: str) -> bool:
    return is_password(value, sure=False)


def _filled(value: str) -> bool:
    return not (is_named(value) or value.lower() in WORDS)


def _basic(value: str) -> bool:
    """Tell whether `value` is what RFC 7617 sends: base64 of a name, a colon and a password."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4))
    except (ValueError, binascii.Error):
        return False


# What a rule may ask of the value it found, by name.
TESTS: dict[str, Callable[[str], bool]] = {
    "any": lambda value: not is_masked(value),
    "digits": lambda value: sum(map(str.isdigit, value)) >= 2 and not is_placeholder(value),
    "filled": _filled,
    "token": _token,
    "password": _password,
    "basic": _basic,
}
