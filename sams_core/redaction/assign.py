"""Secrets behind a name: ``DB_PASSWORD=...``, ``"api_key": "..."``, ``--token ...``, headers.

The name says whether a secret is to be expected, the value whether it is one. Names are read in
the languages of `_PASSWORDS`; identifiers are cut into words first, so ``tokenizer`` and
``secretary`` name nothing.
"""

# Several alphabets are the point here, and words for passwords are no passwords.
# ruff: noqa: RUF001

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from sams_core.redaction import values
from sams_core.redaction.engine import Pattern, spans_of
from sams_core.redaction.model import Span

KIND = "assigned-secret"
Level = Literal["password", "strong", "weak"]

_PASSWORDS = (
    "password passwords passwd passphrase passcode passwort kennwort pwd pass pw psw "
    "contraseña contrasena clave senha parola mdp motdepasse "
    "пароль парол 密码 密碼 口令 パスワード 暗証番号 비밀번호 패스워드 암호 "
    "hasło wachtwoord lösenord şifre parolanız पासवर्ड كلمةالمرور كلمةالسر"
).split()
_SECRETS = (
    "secret secrets token tokens credential credentials creds cred apikey apikeys jwt pat psk "
    "geheimnis schlüssel secreto segreto segredo токен ключ секрет 密钥 秘钥 密鑰 令牌 トークン 토큰 "
    "authtoken accesstoken refreshtoken secretkey accesskey authkey privatekey accountkey sharedkey "
    "signingkey encryptionkey masterkey licensekey servicekey sessionkey clientkey appkey storagekey "
    "clientsecret appsecret sharedsecret webhooksecret consumersecret authorization "
    "sharedaccesskey connectionstring signature sig dsn bearer sessionid sessid phpsessid jsessionid"
).split()
KEYWORDS = (
    "passw|passphrase|passcode|pwd|pass|\\bpw|psw|secret|token|key|cred|auth|jwt|\\bpat|psk|sig|dsn|bearer|sess"
    "|kennwort|contrase|clave|senha|parola|mdp|mot[ _-]de[ _-]passe|geheimnis|schlüssel|segreto"
    "|парол|токен|ключ|секрет|密码|密碼|口令|密钥|秘钥|密鑰|令牌|パスワード|暗証番号|トークン|비밀번호|패스워드"
    "|암호|토큰|hasło|wachtwoord|lösenord|şifre|पासवर्ड|كلمة (?:المرور|السر)"
)
TRIGGERS = tuple(
    """pass pwd pw psw secret token key cred auth jwt pat psk sig dsn bearer sess kennwort contrase clave
    senha parola mdp geheimnis schlüssel segreto парол токен ключ секрет
    密码 密碼 口令 密钥 秘钥 密鑰 令牌 パスワード 暗証番号 トークン 비밀번호 패스워드 암호 토큰
    hasło wachtwoord lösenord şifre पासवर्ड المرور السر
    """.split()
)
# Words before `key` that make it a secret; any other word makes it a weak name at most.
_KEY_OF = frozenset(
    """api access secret private auth authentication signing signature encryption encrypt decryption
    master account shared storage license licence service application app consumer client deploy admin
    subscription webhook integration ingestion ingest write read rest server bot developer dev prod live
    test sandbox root session symmetric aes hmac ssh gpg pgp rsa wireguard wg product activation stream
    sdk publishable restricted management automation billing master-api write-api""".split()
)
# Words before or after that say: this is not the secret itself.
_KEY_NOT = frozenset(
    """primary foreign public partition sort cache hot short row map dict object index group unique
    composite natural surrogate candidate idempotency routing lookup join dedup sorting translation i18n
    message config storage-key registry keyboard ssm parameter state query react data page context
    tag label metric counter feature flag field json yaml column""".split()
)
_NOT_LAST = frozenset(
    """name names id ids type types count counts length len size sizes expiry expires expiration ttl url
    uri urls path file files filename policy hash field fields param params parameter prefix suffix format
    provider arn ref refs limit limits budget usage rotation store manager version class lifetime age hint
    label placeholder regex pattern rules rule reset change changed changer strength min max required
    status valid validator validation endpoint issuer audience location dir directory alias algorithm
    algo alg method mode scheme scope scopes header headers env var variable by for at on in date time
    service server host port user username owner group role description desc title text prompt message
    error errors exception template schema table column index enabled disabled used remaining total
    per cost price bucket source target kind fingerprint thumbprint rotated updated created""".split()
)
_WORD_CUT = re.compile(r"[^\w]+|_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TRAILING = b".,;:!?)]}>\\"
_IDENT = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

_ASSIGN = Pattern(
    f"(?i)(?:{KEYWORDS})"
    r"[\p{L}0-9_.\-]{0,40}"
    r"(?:\\?[\"'`”’」*_)\]]){0,4}[ \t]{0,8}"
    r"(?::[ \t]{0,4}(?:str|string|String|const char\*|\w{1,12}\[\])[ \t]{0,4})?"
    r"(:=|=>|->|={1,3}|\?=|\|=|::|:|：|＝|\||,[ \t]{0,4}\\?[\"']value\\?[\"'][ \t]{0,4}:|"
    r"\n[ \t]{1,40}value:|>)"
)
_LEFT_MOST = 64
_JUDGED = 200
_QUOTES = {b'"': b'"', b"'": b"'", b"`": b"`", "“".encode(): "”".encode(), "„".encode(): "“".encode(),
           "«".encode(): "»".encode(), "「".encode(): "」".encode(), "‘".encode(): "’".encode()}  # fmt: skip
_BARE = re.compile(rb"[^\s\"'`<>]+")
_BARE_END = re.compile("[“”„«»「」『』，。；、\u3000]")
_QUOTE_HEADS = frozenset(opening[:1] for opening in _QUOTES)
_LEAD = re.compile(
    rb"[ \t]{0,16}(?:[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,40}|\*{1,3}|[rbfu]{1,2}[\"']|@)?"
)


@lru_cache(maxsize=4096)
def level(name: str) -> Level | None:
    """Tell what kind of value the identifier or the words `name` announce."""
    words = [word.lower() for word in _WORD_CUT.split(name) if word]
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[-1] in _NOT_LAST:
        return None
    joined = "".join(words)
    last = words[-1].rstrip("0123456789") or words[-1]
    if last in _PASSWORDS or joined in _PASSWORDS or _ends(joined, words, _PASSWORDS[:9]):
        return "password"
    if last in _SECRETS or any(joined.endswith(s) for s in _SECRETS if len(s) > 6):
        return "strong"
    if last in ("key", "keys"):
        before = words[-2] if len(words) > 1 else ""
        if before in _KEY_OF:
            return "strong"
        return "weak" if before and not _KEY_NOT.intersection(words) else None
    if last == "auth" and len(words) <= 3:
        return "weak"
    # `password_prod`, `API_TOKEN_STAGING`: the secret's word first, a place or a purpose behind it.
    if any(word in _PASSWORDS[:9] for word in words):
        return "password"
    return "weak" if any(word in _SECRETS for word in words) else None


def _ends(joined: str, words: list[str], endings: list[str]) -> bool:
    """Tell whether the last word ends in a password word: `dbpassword`, `PGPASSWORD`."""
    last = words[-1]
    return any(last.endswith(e) for e in endings) and not last.endswith(
        ("compass", "bypass", "trespass", "surpass", "overpass", "underpass")
    )


def _name(data: bytes, start: int, end: int) -> str:
    """Return the whole identifier around a keyword, or the keyword with up to two words before it."""
    before = data[max(0, start - _LEFT_MOST) : start]
    if before.endswith(b" "):
        words = before.rpartition(b"\n")[2].split(b" ")[-3:]
        lead = b" ".join([word for word in words if word.isalnum()]) + b" "
    else:
        lead = before[len(before.rstrip(_IDENT)) :]
    return (lead + data[start:end]).decode("utf-8", "ignore")


# An identifier or words; letters beyond ASCII are some bytes each, punctuation beyond it isn't asked.
_NAME = re.compile(rb"(?:[\w.\-\x80-\xff]+(?: [\w.\-\x80-\xff]+)*)?")


def _value(data: bytes, at: int) -> tuple[int, int, bool] | None:
    """Return where the value behind a separator starts and ends, and whether it is quoted."""
    end = _LEAD.match(data, at, at + 100).end()  # type: ignore[union-attr]  # it may be empty
    at = end - (1 if end > at and data[end - 1] in b"\"'@" else 0)
    escaped = data[at : at + 1] == b"\\" and data[at + 1 : at + 2] in (b'"', b"'")
    if escaped:
        at += 1
    for opening, closing in _QUOTES.items() if data[at : at + 1] in _QUOTE_HEADS else ():
        if data.startswith(opening, at):
            begin = at + len(opening)
            if data.startswith(opening * 2, begin) and len(opening) == 1:
                begin += 2
                closing *= 3
            stop = data.find((b"\\" if escaped else b"") + closing, begin, begin + 4096)
            line = data.find(b"\n", begin, begin + 4096)
            if stop < 0 or (0 <= line < stop and len(closing) < 3):
                at = begin
                break
            return (begin, stop, True) if stop > begin else None
    bare = _BARE.match(data, at, min(len(data), at + 4096))
    if not bare:
        return None
    kept = _BARE_END.split(bare[0].decode("utf-8", "ignore"), maxsplit=1)[0]
    return (at, at + len(kept.encode()), False) if kept else None


_NEXT_PAIR = re.compile(rb"[&;,](?=[A-Za-z_][\w.\- ]{0,40}[=:])|;\s*\Z|&(?=amp;)")


def _trim(data: bytes, start: int, end: int) -> int:
    """Cut an unquoted value where the next pair starts, and the punctuation behind it."""
    value = data[start:end]
    cut = _NEXT_PAIR.search(value)
    if cut and cut.start():
        value = value[: cut.start()]
    return start + len(value.rstrip(_TRAILING))


def assigned(data: bytes) -> Iterator[Span]:
    """Yield the values that a secret's name announces, as byte spans."""
    done = 0
    for match in _ASSIGN.finditer(data):
        (begin, _), (cut, behind) = spans_of(match)
        if begin < done:
            continue
        expected = level(_name(data, begin, _NAME.match(data, begin, cut).end()))  # type: ignore[union-attr]
        if expected is None:
            continue
        separator = data[cut:behind]
        found = _value(data, behind)
        if found is None:
            continue
        start, end, quoted = found
        if not quoted:
            end = _trim(data, start, end)
        value = data[start:end].decode("utf-8", "ignore")
        alone = separator in (b"=", b":=", b"?=") or data[end : end + 2].strip(b",;.)} \t\r")[
            :1
        ] in (b"", b"\n")
        # The head is telling enough; a megabyte behind `password=` must not be judged again and again.
        if _accept(expected, value[:_JUDGED], quoted, alone):
            done = end
            yield Span(start, end, KIND)


def _accept(expected: Level, value: str, quoted: bool, alone: bool) -> bool:
    if expected == "password":
        if quoted and " " in value:
            return len(value.split()) <= 8 and not value.endswith((".", "!", "?", ":"))
        return values.is_password(value, sure=quoted or alone)
    if " " in value:
        return False
    return values.is_secret(value, strong=expected == "strong")
