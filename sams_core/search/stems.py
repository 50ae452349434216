"""Reduce a word to a rough root, so that word forms find each other in any language."""

from __future__ import annotations

import re
from functools import cache

# The language of a note is unknown and notes mix languages, so one rule set serves a script: take
# off inflections while enough is left, then cut. Cutting words to their first letters is about as
# good as a stemmer for each language (McNamee and Mayfield, 2004) and can't disagree about which
# language it sees. Exact words are indexed beside roots, so a rough root costs rank, not recall.
# Snowball, told the language, joins 167 of 257 pairs of word forms (tests/search) at 45 us a word;
# this joins 245 at 3 to 8 us and needs no dependency.
CUT = 5
_ROUNDS = 6
_LONG = 20  # letters; nothing that is taken off reaches the cut

# Forms no ending rule reaches, and the abbreviations that people and models mix with the word.
_IRREGULAR = dict(
    pair.split(":")
    for pair in (
        "ran:run sent:send built:build kept:keep wrote:write written:write broke:break "
        "broken:break chose:choose chosen:choose held:hold paid:pay bought:buy sold:sell "
        "made:make making:make took:take taken:take taking:take knew:know known:know began:begin "
        "begun:begin lost:lose losing:lose told:tell spoke:speak spoken:speak taught:teach "
        "went:go gone:go drove:drive driven:drive spent:spend brought:bring caught:catch "
        "fell:fall grew:grow grown:grow hid:hide hidden:hide threw:throw thrown:throw "
        "froze:freeze frozen:freeze using:use used:use uses:use men:man women:woman "
        "children:child people:person indices:index criteria:criterion "
        "payment:pay payments:pay payer:pay failure:fail failures:fail decision:decide decisions:decide "
        "db:database dbs:database auth:authenticate repo:repository repos:repository "
        "prod:production env:environment envs:environment dev:develop app:application "
        "apps:application k8s:kubernetes pg:postgres js:javascript ts:typescript py:python "
        "pwd:password docs:document doc:document msg:message msgs:message org:organization "
        "spec:specify specs:specify"
    ).split()
)
_FIXED = frozenset("data news status analysis".split())

# The lookbehind in front of a group says how many letters remain at least.
_LATIN = re.compile(
    r"(?:(?<=....)(?:izations?|isations?|ations?|ating|ated|ate|ative|atic|ments?|ness|ities|ity"
    r"|ables?|ibles?|ions?|al|aux|ages?|ances?|ences?|ious|ous|ful|less|ors?|ung|lich|keit"
    r"|heit|isch|imento|zione|idade?|eaux?|elles?|nya|ship)"
    r"|(?<=.....)(?:ives?|ants?|ents?)"
    r"|(?<=...)(?:ings?|edly|ed|ers?|ly|es|en|em|an|e|acion|acao|amento|ado|ada|ych|ego|ami"
    r"|(?<![siu])s|(?<=[lr])n|(?<=[eiou][^aeiou])ler|(?<=[aoui][^aeiou])lar|(?<=[eiou])ler"
    r"|(?<=[aoui])lar|(?<=[aeiou])n[iu]n|(?<=[aeiou])[ys][iu]|[aiouy])"
    r"|(?<=....)(?:(?<=[frl])t|(?<=ch)t))$"
)
# Romance infinitives, before other endings only: "pagar", but not Dutch "bewar-en".
_INFINITIVE = re.compile(r"(?<=...)(?:(?<!l)ar|[aei]mos)$")
_REWRITTEN = ((re.compile(r"ie[sd]$"), "y"), (re.compile(r"(?<=[scx])oes$"), "ao"))
_PARTICIPLE = re.compile(r"^ge(?=.{4,}t$)")  # German: gelöscht, löschen
_UMLAUT = re.compile(r"(?<=[aou])e(?=.)")  # Schluessel for Schlüssel
_DOUBLED = re.compile(r"(.)\1")
_DEVOICED = str.maketrans("bdg", "ptk")  # Turkish: ekip, ekibi

# Compiled when a word of the script is first seen: an import shouldn't wait for them.
_CYRILLIC = (
    r"(?<=...)(?:овани(?:е|я|ю|ем)|[еа]ни(?:е|я|ю|ем|й|и|ями|ях)|ировать|овать|[уи]рует|уем|уют|ует"
    r"|иями|ями|ами|ого|его|ому|ему|ыми|ими|ией|ать|ять|ить|еть|утся|ется|ается"
    r"|ают|ает|яют|яет|аем|яем|им|ов|ев|ей|ой|ий|ый|ая|яя|ое|ее|ые|ие|ых|их|ую|юю|ом|ем|ам|ям|ах|ях"
    r"|ия|ию|ии|ть|ет|ит|ут|ют|ат|ят|(?<=и)л[аои]?|[аяоеиыуюьйъії])$"
)
_ARABIC_ARTICLE = r"^(?:[وفبك]?ال|[وف]?لل)(?=...)"
_ARABIC_CLITIC = r"^(?:[وفبلك](?=....)|[يتن](?=...$))"
_ARABIC_TAIL = r"(?<=...)(?:هما|كما|ها|هم|كم|نا|ات|ان|ون|ين|يه|وا|ه|ي|ك|ت)$"
_HEBREW_CLITIC = r"^(?:[ושכ]?[הבלמ]|[ושכ])(?=...)"
_HEBREW_TAIL = r"(?<=..)(?:ים|ות|יה|ה)$"
_INDIC_TAIL = r"(?<=..)(?:ियों|ियाँ|ियां|ाओं|ाएं|ाएँ|ुओं|ओं|ों|ें|ीं|ने|ना|नी|ता|ते|ती|[\u0902\u093e-\u094d])$"
_GREEK_TAIL = r"(?<=..)(?:ουσ|εισ|ων|οσ|ησ|ασ|εσ|ισ|ου|οι|αι|ια|ιων|[αεηιουω])$"


def roots(word: str) -> tuple[str, ...]:
    """Return the root of a folded word; two where a first letter may be a particle or not."""
    first = word[0]
    if first < "\u0250":
        return (_latin(word),)
    if "\u0400" <= first < "\u0530":
        bare = word.removesuffix("ся").removesuffix("сь") if len(word) > 5 else word
        return (_without(_CYRILLIC, bare)[:CUT],)
    if "\u0600" <= first < "\u0780":
        bare = _without(_ARABIC_ARTICLE, word)
        return _both(bare, _without(_ARABIC_CLITIC, bare), _ARABIC_TAIL)
    if "\u0590" <= first < "\u0600":
        return _both(word, _without(_HEBREW_CLITIC, word), _HEBREW_TAIL)
    if "\u0370" <= first < "\u0400":
        return (_without(_GREEK_TAIL, word)[:CUT],)
    if "\u0900" <= first < "\u0e00":
        return (_without(_INDIC_TAIL, word)[:CUT],)
    return (word[:CUT],)


def _without(pattern: str, word: str) -> str:
    return _compiled(pattern).sub("", word, 1)


_compiled = cache(re.compile)


def _both(word: str, bare: str, tail: str) -> tuple[str, ...]:
    found = _without(tail, word)[:CUT]
    return (found,) if bare == word else (found, _without(tail, bare)[:CUT])


def _latin(word: str) -> str:
    word = _IRREGULAR.get(word, word)
    if word in _FIXED:
        return word
    if len(word) > _LONG:
        return word[:CUT].replace("y", "i")
    for pattern, ending in _REWRITTEN:
        word = pattern.sub(ending, word, 1)
    word = _UMLAUT.sub("", _PARTICIPLE.sub("", word, 1))
    shorter = _INFINITIVE.sub("", word, 1)
    if shorter == word:
        shorter = _LATIN.sub("", word, 1)
    for _ in range(_ROUNDS):
        if shorter == word:
            break
        word, shorter = shorter, _LATIN.sub("", shorter, 1)
    word = _DOUBLED.sub(r"\1", word).replace("y", "i")[:CUT]
    return word[:-1] + word[-1:].translate(_DEVOICED)


def irregular(word: str) -> bool:
    """Say whether a word of any length has a root of its own."""
    return word in _IRREGULAR
