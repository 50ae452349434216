"""Choose phrases out of a question in a script that has no blanks between words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

# Function and question words, taken out of a run before it is cut into phrases.
_FUNCTION = (
    # Chinese
    "什么时候 什麼時候 为什么 為什麼 什么 什麼 怎么样 怎麼樣 怎么 怎麼 怎样 哪里 哪裡 哪儿 哪个 哪個 哪些 哪一 "
    "何时 何時 如何 多少 多久 几点 幾點 是否 可以 应该 應該 需要 我们 我們 你们 他们 这个 這個 那个 那個 "
    "的 了 吗 嗎 呢 吧 是 谁 誰 "
    # Japanese
    "ですか ますか でしょうか ました ません ください すればよい すれば いつ どこ どの どれ だれ なぜ どう "
    "どのように なに いくつ いくら です ます する した して される され には では とは から まで より ので "
    "について という ような こと もの ある いる この その あの は が を に へ で と も の か や ね よ 何時 誰 何 "
    # Korean
    "언제 어디서 어디에 어디 누가 누구 무엇 무슨 어떻게 어떤 왜 얼마나 몇 하나요 인가요 합니까 입니까 습니까 "
    "됩니까 나요 까요 해야 있나요 되나요 에서 으로 에게 까지 부터 우리 "
    # Thai
    "เมื่อไหร่ เมื่อไร ตอนไหน ที่ไหน ตรงไหน อะไร ใคร อย่างไร ยังไง ทำไม เท่าไหร่ เท่าไร กี่ หรือไม่ หรือเปล่า "
    "ไหม มั้ย ครับ ค่ะ คะ ของ และ หรือ ที่ ใน คือ เป็น ได้ ให้ จะ ต้อง เรา จาก กับ ไหน ควร มี บน โดย "
    # Lao, Khmer, Burmese
    "ເມື່ອໃດ ຢູ່ໃສ ແນວໃດ ຫຍັງ ໃຜ ຂອງ ແລະ "
    "ពេលណា នៅឯណា អ្វី នរណា យ៉ាងដូចម្តេច របស់ និង "
    "ဘယ်အချိန် ဘယ်မှာ ဘယ်လို ဘာ ဘယ်သူ ၏ နှင့်"
).split()  # fmt: skip
MAX_PHRASES = 40
_SEAM = "\x1f"
_KANA_TAIL = 3  # units; shorter stretches of hiragana are endings and particles


def phrases(runs: Iterable[tuple[str, ...]], *, alone: bool) -> list[tuple[str, ...]]:
    """Return overlapping pairs of units as groups of forms; all of them if nothing else is left.

    A word of one unit stands alone. `alone` says that the query has no other terms, so that even
    function words may not be dropped if they are all there is.
    """
    runs = list(runs)
    found = _pairs(word for run in runs for part in _content(run) for word in _words(part))
    if not found and alone:
        found = _pairs(runs)
    return found[:MAX_PHRASES]


def _pairs(runs: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    found: dict[tuple[str, ...], None] = {}
    for run in runs:
        # 閉まる and 閉める share the one character only.
        stem = len(run) == 2 and _kind(run[0]) != _kind(run[1])
        for at in range(max(1, len(run) - 1)):
            found[(" ".join(run[at : at + 2]), *run[: 1 if stem else 0])] = None
    return list(found)


def _content(run: tuple[str, ...]) -> list[tuple[str, ...]]:
    left = _cut().sub(" ", f"{_SEAM}{_SEAM.join(run)}{_SEAM}").split(" ")
    return [tuple(part.split(_SEAM)) for part in (cut.strip(_SEAM) for cut in left) if part]


def _words(part: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Cut where the script changes, as Japanese words do; other scripts stay whole."""
    stretches = [tuple(units) for _, units in groupby(part, _kind)]
    for at, units in enumerate(stretches):
        if _kind(units[0]) == "hiragana":
            if len(units) >= _KANA_TAIL:
                yield units
            continue
        ending = stretches[at + 1][:1] if at + 1 < len(stretches) else ()
        if ending and _kind(ending[0]) != "hiragana":
            ending = ()
        if len(units) > 1 or not ending:
            yield units
        if ending:
            yield units[-1], *ending


def _kind(unit: str) -> str:
    if "\u3041" <= unit[0] <= "\u309f":
        return "hiragana"
    return "katakana" if "\u30a0" <= unit[0] <= "\u30ff" else ""


_compiled: list[re.Pattern[str]] = []


def _cut() -> re.Pattern[str]:
    if not _compiled:
        from .terms import piece_terms

        words = {_SEAM.join(t.units) for word in _FUNCTION for t in piece_terms(word) if t.units}
        longest = sorted(words, key=lambda word: (-len(word), word))
        _compiled.append(re.compile(f"(?<={_SEAM})(?:{'|'.join(longest)})(?={_SEAM})"))
    return _compiled[0]
