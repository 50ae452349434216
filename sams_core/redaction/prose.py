"""Secrets that a sentence gives away: "the password is ...", in the languages of `KEYWORDS`."""

# Several alphabets are the point here, and words for passwords are no passwords.
# ruff: noqa: RUF001, S105

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from sams_core.redaction import values
from sams_core.redaction.engine import Pattern, Shape, spans_of
from sams_core.redaction.model import Span

KIND = "spoken-secret"
_PASSWORD = (
    r"pass ?(?:word|phrase|code)s?|passwd|\bpwd|\bpw|\bpin|log[ -]?ins?|log in|sign in|credentials?"
    r"|passw[oö]rt|kennwort|zugangsdaten|schlüsselwort|mot de passe|mdp|identifiants?|contrase[nñ]a|clave"
    r"|senha|palavra[ -]passe|credenciais|parola d.ordine|parola|credenziali|парол[ьяюем]+|密码|密碼|口令"
    r"|パスワード|暗証番号|비밀번호|패스워드|암호|كلمة (?:المرور|السر)|पासवर्ड|hasło|wachtwoord|lösenord|şifre"
)
_TOKEN = (
    r"\bkeys?\b|\btokens?\b|secrets?\b|\bauth\b|schlüssel|geheimnis|jeton|clé|clef|llave|secreto|chave|segredo|chiave"
    r"|segreto|ключ|токен|секрет|密钥|秘钥|密鑰|令牌|トークン|キー|토큰|키|مفتاح|कुंजी|टोकन"
)
TRIGGERS = (
    "log in",
    "sign in",
    *"""pass pwd pw pin login log-in credential kennwort zugangsdaten mdp identifiant contrase clave
    senha palavra credenci parola credenzia парол 密码 密碼 口令 パスワード 暗証番号 비밀번호 패스워드
    암호 المرور السر पासवर्ड hasło wachtwoord lösenord şifre key token secret auth schlüssel geheim
    jeton clé clef llave chave segredo chiave segreto ключ токен секрет 密钥 秘钥 密鑰 令牌 トークン
    キー 토큰 키 مفتاح कुंजी टोकन""".split(),
)
_WORD = Pattern(f"(?i)(?:{_PASSWORD}|{_TOKEN})")
_PASSWORDS = Shape(f"(?i)(?:{_PASSWORD})")
# Windows are short: Python's own engine starts faster on them than RE2. Each pattern reads a byte at
# most twice, because what `*+` has taken it doesn't give back.
_OTHER = rb"\xc2[\xa7\xa3]|\xe2\x82\xac"  # paragraph, pound and euro signs
_CHARS = rb"(?:[!#$%&*+\-./0-9:=?@A-Z\\^_a-z~]|" + _OTHER + rb")*+"
# Words of lower-case letters are candidates only in quotes; most words of a text are passed over.
_PLAIN = rb"\-./:a-z"
_CANDIDATE = re.compile(
    rb"(?<![" + _PLAIN + rb"])[" + _PLAIN + rb"]*+(?:[!#$%&*+0-9=?@A-Z\\^_~]|" + _OTHER + rb")" + _CHARS
    + rb"|[\"'`][a-z][a-z.\-]{4,60}[\"'`]"
)  # fmt: skip
_REST = re.compile(_CHARS)
# What may be a key or token is one long word; what may be a password has a few letters.
_LEAST, _SHORTEST = 16, 4
_LONG = re.compile(rb"[!#$%&*+\-./0-9:=?@A-Z\\^_a-z~\xa3\xa7\x82\xac\xc2\xe2]{16}")
_WINDOW = 96
_NEAR = Shape(
    r"(?i)[\s'\"`‘’“”„«»「」『』*_：:—–=\-]*(?:(?:is|was|to|be|now|set|as|are|still|equals|reads|becomes|remains"
    r"|lautet|ist|war|bleibt|auf|est|était|es|era|são|é|será|è|sarà|jest|är|to|это|теперь|है|هي|هو|เป็น"
    r"|是|为|為|は|が|を|는|은|이|가|changed|new|current|currently|temporary|old|use|used|using|with|and"
    r"|for [\w.\-]{1,30}|on [\w.\-]{1,30}|[\w.@+\-]{2,40} ?/|neue|neues|nouveau|nuevo|nueva|nova|nuova|новый)"
    r"[\s'\"`‘’“”„«»「」『』*_：:—–=]*){0,4}"
)
_ELSEWHERE = re.compile(rb"[()\[\]{}<>,;?!|\\#%&$^~]")  # nothing that `_NEAR` takes
_STRONG_NAME = re.compile(
    rb"(?i)(?:api|access|auth\w*|secret|private|signing|encryption|client|licen[sc]e|service|personal|"
    rb"account|deploy|bot|webhook|master|admin|app|refresh|bearer|integration|write|read|ingest\w*)"
    rb"[ _-]{0,2}\Z"
)
_PAIR = re.compile(r"[\w.@+\-]{2,64}[:/](?!/)(.{6,})")
_BEFORE = Pattern(
    r"(?i)([!#$%&*+\-./0-9:=?@A-Z^_a-z~]{8,256})[\"'`”’»]{0,2}[ \t]{1,4}"
    r"(?:is|was|as|for|est|ist|es|é|è|это)[ \t]"
    r"(?:[\p{L}']{1,16}[ \t]){0,4}(?:pass(?:word|phrase|code)|token|secret|key|credential)"
)


def _trimmed(data: bytes, start: int, end: int) -> int:
    return start + len(data[start:end].rstrip(b".,;:!?"))


@lru_cache(maxsize=1024)
def _means_password(word: bytes) -> bool:
    return _PASSWORDS.fits(word.decode("utf-8", "ignore"))


def spoken(data: bytes) -> Iterator[Span]:
    """Yield what sentences name as a password, key or token, as byte spans."""
    words = [spans_of(match)[0] for match in _WORD.finditer(data)]
    following = [start for start, _ in words[1:]] + [len(data)]
    for (start, end), stop in zip(words, following, strict=False):
        stop = min(stop, end + _WINDOW)
        line = data.find(b"\n", end, stop)
        if line >= 0:
            stop = line
        password = _means_password(data[start:end])
        if password or _LONG.search(data, end, stop + _LEAST):
            yield from _in_window(data, start, end, stop, password)
    for match in _BEFORE.finditer(data):
        value = match.group(1).decode("utf-8", "ignore")
        if (values.is_random(value) and not values.is_hex(value)) or (
            values.is_spoken(value)
            and (len(value) >= 8 and not values.is_hex(value))
            and any(not c.isalnum() and c not in "-_./:" for c in value)
        ):
            yield Span(match.start(1), match.end(1), KIND)


def _in_window(data: bytes, start: int, end: int, stop: int, password: bool) -> Iterator[Span]:
    for match in _CANDIDATE.finditer(data[end:stop]):
        low, high = match.start() + end, match.end() + end
        if high == stop:
            # The window cut the word; take the rest of it.
            high = _REST.match(data, stop, stop + 512).end()  # type: ignore[union-attr]
        if data[low] in b"\"'`":
            low, high = low + 1, high - 1
        high = _trimmed(data, low, high)
        low = high - len(data[low:high].lstrip(b".,;:=?*-"))
        if high - low < (_SHORTEST if password else _LEAST):
            continue
        if low <= end and data[end - 1 : end].isalnum():
            continue  # the rest of an identifier, `PASSWORD_MIN_LENGTH`
        value = data[low:high].decode("utf-8", "ignore")
        pair = _PAIR.fullmatch(value) if password else None
        if pair and "//" not in value and values.is_spoken(pair[1]):
            yield Span(high - len(pair[1].encode()), high, KIND)
        elif (password and _near(data[end:low]) and _said(data, low, high, value)) or _random(
            data, value, start, end, low, password
        ):
            yield Span(low, high, KIND)


def _near(gap: bytes) -> bool:
    """Tell whether nothing but "is", "lautet" and the like stands before a value."""
    return gap.isspace() or (
        not _ELSEWHERE.search(gap) and _NEAR.fits(gap.decode("utf-8", "ignore"))
    )


def _said(data: bytes, low: int, high: int, value: str) -> bool:
    """Accept what looks like a password, and in quotes any word that isn't one of the usual ones."""
    quoted = (
        data[low - 1 : low] in (b'"', b"'", b"`") and data[high : high + 1] == data[low - 1 : low]
    )
    return values.is_spoken(value) or (quoted and values.is_password(value, sure=True))


def _random(data: bytes, value: str, start: int, end: int, low: int, password: bool) -> bool:
    if not values.is_random(value, least=_LEAST):
        return False
    if values.is_hex(value):
        around = data[max(0, end - 32) : low]
        return (
            (password or bool(_STRONG_NAME.search(data[max(0, start - 24) : start])))
            and len(value) >= 20
            and not values.HASH_WORDS.search(around)
        )
    return True
