"""Secrets in every form they come in, and the ordinary text that must survive."""

from __future__ import annotations

import base64

import pytest

from sams_core.redaction import check_rules, load_rules, redact
from sams_core.redaction.model import RuleError

PASSWORD = "hunter" + "2x"
TOKEN = "k3Jx92" + "LmQpZ81" + "abTT"
GITHUB = "ghp" + "_" + "a1B2" * 9
HEAD, TAIL = "-----BEGIN RSA PRIVATE " + "KEY-----", "-----END RSA PRIVATE " + "KEY-----"
BODY = "MIIEpAIB" + "Aq3Zk9" * 20


def tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(char)) for char in text)


ASSIGNED = {
    f"password: {PASSWORD}": PASSWORD,
    f"Passwort: {PASSWORD}": PASSWORD,
    f"mot de passe : {PASSWORD}": PASSWORD,
    "пароль: Луна2024": "Луна2024",
    f"密码：{PASSWORD}": PASSWORD,
    f"DB_PASS={PASSWORD}": PASSWORD,
    f"spring.datasource.password={PASSWORD}": PASSWORD,
    f'"apiKey": "{TOKEN}"': TOKEN,
    f"- name: DB_PASSWORD\n  value: {PASSWORD}": PASSWORD,
    f"password: >-\n    {PASSWORD}": PASSWORD,
    f'{{"name":"API_TOKEN","value":"{TOKEN}"}}': TOKEN,
    f"<password>{PASSWORD}</password>": PASSWORD,
    f"Server=db;User Id=sa;Password={PASSWORD};Timeout=5": PASSWORD,
    f"| password | {PASSWORD} |": PASSWORD,
    f"**Password:** {PASSWORD}": PASSWORD,
    f"os.environ['API_KEY'] = '{TOKEN}'": TOKEN,
    f"X-Api-Key: {TOKEN}": TOKEN,
    f"ENV API_TOKEN {TOKEN}": TOKEN,
    f"mysql -u root -p{PASSWORD} db": PASSWORD,
    f"tool --api-key {TOKEN} run": TOKEN,
    f"curl -u admin:{PASSWORD} https://x.test": PASSWORD,
    f"postgres://app:p@ss@{PASSWORD}@db.internal/app": PASSWORD,
    f"redis://:{PASSWORD}@cache:6379": PASSWORD,
    f"Authorization: Bearer {TOKEN}": TOKEN,
    f"https://x.test/cb?access_token={TOKEN}&a=1": TOKEN,
}
SPOKEN = (
    f"the password is {PASSWORD}.",
    f"das Passwort lautet {PASSWORD}",
    f"le mot de passe est {PASSWORD}",
    f"la contraseña es {PASSWORD}",
    f"a senha é {PASSWORD}",
    f"la password è {PASSWORD}",
    f"пароль — {PASSWORD}",
    f"密码是{PASSWORD}。",
    f"パスワードは{PASSWORD}です",
    f"비밀번호는 {PASSWORD} 입니다",
    f"كلمة المرور هي {PASSWORD}",
    f"पासवर्ड {PASSWORD} है",
    f"login with admin / {PASSWORD}",
    f"credentials: admin:{PASSWORD}",
)
PLAIN = f"password: {PASSWORD}"
DISGUISED = {
    "struck through": "password=" + "".join(char + "\u0336" for char in PASSWORD),
    "circled": "\u20dd".join(f"password={PASSWORD}"),
    "between NULs": "\0".join(f"password={PASSWORD}"),
    "full width": "ｐａｓｓｗｏｒｄ：Ｈｕｎｔｅｒ２ｘ",
    "zero width": f"pass\u200bword: {PASSWORD}",
    "variation selector": f"password\ufe0f: {PASSWORD}",
    "cyrillic letter": f"p\u0430ssword: {PASSWORD}",
    "tag characters": tags(PLAIN),
    "hex": PLAIN.encode().hex(),
    "base64": base64.b64encode(PLAIN.encode()).decode(),
    "percent": f"password%3A%20{PASSWORD}",
    "html": f"&#112;assword: {PASSWORD}",
    "json escape": f"\\u0070assword: {PASSWORD}",
    "python escape": f"\\U00000070assword: {PASSWORD}",
    "javascript escape": f"\\u{{70}}assword: {PASSWORD}",
    "octal escape": f"\\160assword: {PASSWORD}",
    "html without semicolon": f"pass&#119ord: {PASSWORD}",
    "terminal colours": f"\x1b[1mpassword\x1b[0m: {PASSWORD}",
    "terminal colours as shown": f"^[[1mpassword^[[0m: {PASSWORD}",
    "terminal colours in json": f"\\u001b[1mpassword\\u001b[0m: {PASSWORD}",
}


@pytest.mark.parametrize("text", ASSIGNED)
def test_an_assigned_value_is_cut_and_its_name_stays(text: str) -> None:
    secret = ASSIGNED[text]
    result = redact(text)
    assert secret not in result.text
    assert result.kinds
    # What stands before the value says what it was; it is not part of the secret.
    assert result.text[:2] == text[:2]


@pytest.mark.parametrize("text", SPOKEN)
def test_a_spoken_secret_is_cut_in_every_language(text: str) -> None:
    assert "spoken-secret" in redact(text).kinds or "assigned-secret" in redact(text).kinds
    assert PASSWORD not in redact(text).text


@pytest.mark.parametrize("way", DISGUISED)
def test_a_disguised_secret_is_cut_from_the_original(way: str) -> None:
    result = redact(f"before {DISGUISED[way]} after")
    assert result.kinds
    assert result.text.startswith("before ")
    assert result.text.endswith(" after")
    assert PASSWORD not in result.text
    assert "２" not in result.text


ESCAPES = (
    "\\n",
    "\\t",
    "\\r\\n",
    "\\0",
    '\\"',
    "\\/",
    "\\\\n",
    '\\\\\\"',
    "\\u000a",
    "\\x0a",
    "%0A",
    "&#10;",
    "&#10",
    "\\012",
    "\\U0000000a",
    "\\u{a}",
)


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_token_right_behind_an_escape_is_cut(escape: str) -> None:
    token = "AKIA" + "QWERTYUIOPASDFGH"
    assert redact(f'{{"note": "x{escape}{token}"}}').text == (
        f'{{"note": "x{escape}[REDACTED:aws-access-key]"}}'
    )


KEYS = ("AKIA" + "QWERTYUIOPASDFGH", "sk_live_" + "a1B2c3D4" * 3, "dapi" + "0a1b" * 8)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["_{}_", "prod_{}_old", "__{}__", "{}_x"])
def test_an_underscore_beside_a_key_hides_none(key: str, around: str) -> None:
    assert redact(around.format(key)).text.replace(redact(key).text, key) == around.format(key)


def test_keys_joined_by_underscores_are_all_cut() -> None:
    assert KEYS[0][8:] not in redact("_".join([KEYS[0]] * 9)).text


def test_letters_that_a_key_cant_have_are_its_ends() -> None:
    assert redact(f"key{KEYS[0]}old").text == "key[REDACTED:aws-access-key]old"
    assert redact(f"A{KEYS[0]}").kinds == redact(f"{KEYS[0]}9").kinds == ()


@pytest.mark.parametrize(
    "text",
    [
        f'password=3D"{PASSWORD}"',
        f"x=3D1, the password is {PASSWORD[:4]}=\n{PASSWORD[4:]}",
        f"x=3D1, {KEYS[0][:8]}=\r\n{KEYS[0][8:]}",
        f"x=3D1, {KEYS[0][:8]}=51{KEYS[0][9:]}".replace("=51", f"={ord(KEYS[0][8]):02X}"),
    ],
)
def test_quoted_printable_hides_nothing(text: str) -> None:
    found = redact(text).text
    assert "[REDACTED:" in found
    assert PASSWORD[4:] not in found
    assert KEYS[0][9:] not in found


def test_without_an_encoded_equals_sign_a_text_isnt_quoted_printable() -> None:
    text = f"{KEYS[0][:8]}=\n{KEYS[0][8:]}"
    assert redact(text).text == text


@pytest.mark.parametrize("form", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_wide_encoding_read_as_bytes_hides_nothing(form: str) -> None:
    wide = f"a line\npassword={PASSWORD}\n{KEYS[0]}\n".encode(form).decode("latin-1")
    found = redact(wide)
    assert found.kinds == ("assigned-secret", "aws-access-key")
    left = found.text.replace("\0", "")
    assert left == "a line\npassword=[REDACTED:assigned-secret]\n[REDACTED:aws-access-key]\n"


COLOURS = (
    "\x1b[1;32m",
    "^[[32m",
    "\\u001b[32m",
    "\\x1b[38:5:1m",
    "\\\\033[32m",
    "\\e[32m",
)


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_of_a_terminal_hide_no_token(colour: str) -> None:
    token = "AKIA" + "QWERTYUIOPASDFGH"
    end = colour.rpartition("[")[0] + "[0m"
    assert redact(f"is {colour}{token}{end} now").text == (
        f"is {colour}[REDACTED:aws-access-key]{end} now"
    )
    # As `grep --color` shows what it was asked for.
    assert "QWERTY" not in redact(f"is {colour}{token[:4]}{end}{token[4:]} now").text


def test_a_private_key_goes_with_its_body_in_every_dress() -> None:
    for key in (
        f"{HEAD}\n{BODY}\n{TAIL}",
        f"{HEAD}\\n{BODY}\\n{TAIL}",
        f"  > {HEAD}\n  > {BODY}\n  > {TAIL}",
        f"{HEAD}\n{BODY}\n",
        BODY[:8] + "AAKCAQEA" + BODY * 2,
    ):
        result = redact(f"x {key} y")
        assert BODY[20:60] not in result.text, key
        assert result.kinds == ("private-key",)


def test_a_line_that_mentions_a_key_header_stays_with_the_rest_of_the_note() -> None:
    text = f"The file starts with {HEAD} and is never committed.\nNext line.\nAnd one more."
    assert redact(text).text == text


def test_a_base64_copy_of_a_key_is_cut_whole() -> None:
    packed = base64.encodebytes(f"{HEAD}\n{BODY}\n{TAIL}".encode()).decode()
    result = redact(f"see:\n{packed}end")
    assert result.text == "see:\n[REDACTED:private-key]\nend"


def test_the_rules_hold_their_own_examples() -> None:
    assert check_rules() == []


def test_a_failing_example_is_reported_by_rule_and_number(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "sams.toml"
    file.write_text(
        "[[redaction.rules]]\nid = 'acme'\npattern = 'acme-[0-9]{8}'\ncatch = 'acme-123'\n"
        "keep = ['acme-12345678']\n"
    )
    assert check_rules(load_rules(file)) == [
        "acme: catch example 1 is not found by its rule",
        "acme: keep example 1 is cut as acme",
    ]


def test_a_users_rule_is_applied_and_only_when_given(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "sams.toml"
    file.write_text(
        "[[redaction.rules]]\nid = 'acme-key'\npattern = 'acme-([0-9]{8})'\nkeywords = ['acme-']\n"
        "catch = 'acme-12345678'\n"
    )
    rules = load_rules(file)
    assert redact("use acme-12345678", rules=rules).text == "use acme-[REDACTED:acme-key]"
    assert redact("use acme-12345678").kinds == ()


@pytest.mark.parametrize(
    "body",
    [
        "id = 'A b'\npattern = 'x'\ncatch = 'x'",
        "id = 'a'\npattern = '(x'\ncatch = 'x'",
        "id = 'a'\npattern = 'x*'\ncatch = 'x'",
        "id = 'a'\npattern = 'x'",
        "id = 'a'\npattern = 'x'\ncatch = 'x'\nkeyword = 'x'",
        "id = 'a'\npattern = 'x'\ncatch = 'x'\nvalue = 'nonsense'",
        "id = 'a'\npattern = 'x'\ncatch = 'x'\nentropy = nan",
        "id = 'a'\npattern = 'x'\ncatch = 'x'\nentropy = inf",
        "id = 'a'\npattern = 'x'\ncatch = 'x'\nentropy = 1" + "0" * 400,
    ],
)
def test_a_malformed_rule_is_refused(tmp_path, body: str) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "sams.toml"
    file.write_text(f"[[redaction.rules]]\n{body}\n")
    with pytest.raises(RuleError):
        load_rules(file)


def test_personal_data_stays_unless_asked_for() -> None:
    text = "mail anna@example.com, card 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, +49 30 1234567"
    assert redact(text).text == text
    cut = redact(text, personal=("email", "card", "iban", "phone"))
    assert cut.kinds == ("card", "email", "iban", "phone")
    assert "[REDACTED:email@example.com]" in cut.text
    assert redact(cut.text, personal=("email", "card", "iban", "phone")).text == cut.text


def test_numbers_that_fail_their_check_digits_stay() -> None:
    text = "order 4111 1111 1111 1112, DE89 3704 0044 0532 0130 01, at 1700000000123"
    assert redact(text, personal=("card", "iban")).text == text


def test_an_unknown_kind_of_personal_data_is_refused() -> None:
    with pytest.raises(ValueError, match="shoe-size"):
        redact("x", personal=("shoe-size",))


def test_kinds_are_sorted_and_named_once() -> None:
    assert redact(f"{GITHUB} {GITHUB} password={PASSWORD}").kinds == (
        "assigned-secret",
        "github-token",
    )


@pytest.mark.parametrize(
    "secret",
    ["k=ABIAQ3EGZ7PLM%53XWT2BN", "k=A3TXQ3EGZ7PLM\\x53XWT2BN", "pass%77ord=ABzK9mQ2xW7pL4t"],
)
def test_quoted_printable_beside_it_hides_no_escaped_secret(secret: str) -> None:
    assert redact(secret).kinds
    assert redact(f"a=3D1 {secret}").text == f"a=3D1 {redact(secret).text}"
