"""Function and question words: a question is about its other words."""

from __future__ import annotations

# Folded as `folding.fold` does. Left out are words that carry content in another language or as a
# name: AI, CI, OS, EU, US, Go, Kim, May, todo, Spanish "mes" (month). Others are judged the other
# way: German "die" is in, because nobody asks a memory about dying.
_LISTS = (
    # English
    "a about above after again all also am an and any are aren as at be because been before being "
    "between both but by can could did didn do does doesn doing don each else ever for from had "
    "has hasn have haven having he her here hers him his how i if in into is isn it its itself "
    "just ll let me might mine more most must my no nor not now of off on once one only or "
    "other our ours out over please re s same shall she should shouldn so some such t than that "
    "the their theirs them then there these they this those through to too under until up upon "
    "ve very was wasn we were weren what when where whether which while who whom whose why will "
    "with within without won would wouldn you your yours",
    # German
    "ab aber als am an auch auf aus bei beim bis bitte da dabei damit dann das dass dein dem "
    "den denn der des die dies diese diesem diesen dieser dieses doch du durch ein eine einem einen "
    "einer eines er es etwas fur gibt habe haben hat hatte ich ihm ihn ihnen ihr ihre im in ins "
    "ist ja kann kannst kein keine konnen machen man mein mit mussen muss nach nicht noch nur ob "
    "oder ohne sehr sein seine seit sich sie sind so soll sollen sollte uber um und uns unser "
    "unsere unserem unseren unter vom von vor wann war waren warum was welche welchem welchen "
    "welcher welches wenn wer werden wie wieso wieviel wir wird wo wofur woher wohin wurde wurden "
    "zu zum zur zwischen",
    # French
    "a au aux avec avoir c ce ces cet cette ceux chez comme comment d dans de des doit "
    "doivent dois donc dont du elle elles en est et etait etre eux fait faire faut il ils j je l "
    "la le les leur leurs lui m ma mais me moi mon n ne nos notre nous on ou par pas peut "
    "peuvent plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi s sa sans se "
    "sera si son sont sous sur ta te tes toi ton tous tout toute toutes tu un une vers vos "
    "votre vous y",
    # Spanish and Portuguese
    "al algo algun alguna algunos ante aos aquel aquela aquele as cada como com con cual cuales "
    "cuando cuanta cuantas cuanto cuantos da das de debe deben debo del desde deve devem do donde "
    "e el ela elas ele eles ella ellas ellos em en entre era es esa ese eso essa esse esta "
    "estan estao estas este esto estos fica ficam foi fue ha hace hacemos hacer hay isso isto "
    "la las le lhe lo los mais mas me meu mi minha mis muito muy na nao nas nem ni no nos nosso "
    "nossa nuestra nuestras nuestro nuestros num numa o onde ou para pela pelas pelo pelos pero "
    "pode podem podemos por porque pra puede pueden puedo qual quais quando quanto quantos quanta "
    "quantas que quem quien quienes se sem ser si sido sin sobre somos son sou sua suas sus su "
    "tem tener tengo tenemos tiene tienen ter tu um uma un una unas uno unos usted "
    "voce voces y ya yo",
    # Italian and Dutch
    "che chi cosa cui dai dal dalla delle dei della dello di dove e ed gli ha hanno il "
    "ma mi nel nella nei non per perche piu puo quale quali quanti quanto questa questo sono sul "
    "sulla tra tutti un uno aan bij dat de deze dit een en er hebben heb heeft het hier hij hoe "
    "ik is kan kunnen maar met mij naar niet nog of om onder ons onze ook op over te tot uit van "
    "voor waar waarom wanneer wat welke wie wij wordt worden zal ze zich zij zijn",
    # Turkish, Polish, Indonesian and Vietnamese
    "acaba ama bana ben bir biz bize bizim bu bunu cok da daha de degil diye en gibi hangi hangisi "
    "her hic icin ile ise kac kadar kime kimin mi mu mudur midir nasil ne neden nedir nerede "
    "nereden nereye neler niye o olan olarak olur once onu sadece sen sey siz sonra su tum var ve "
    "veya ya yapilir yapiyor yok zaman "
    "ale bez byc byl co czy czym dla do gdzie i ich jak jaka jaki jakie jego jej jest jestem "
    "kiedy kto ktora ktore ktory ma moze na nasz nasza nasze nie o od oraz po przez przy sa sie "
    "ta tak tam te tego ten to w we wszystkie z za ze "
    "ada adalah akan apa apakah atau bagaimana bagi dalam dan dari dengan di dimana harus ini itu "
    "kami kapan ke kenapa kita mana mengapa oleh pada saya siapa untuk yang "
    "bao cac cai cho co cua duoc gi khi khong la lam luc mot nao nhu nhung o sao tai the thi "
    "toi trong tu va ve voi",
    # Russian and Ukrainian
    "а без бы был была были было быть в вам вас весь во вот все всех вы где да для до его ее если "
    "есть еще же за зачем и из или им их к как какая какие каким каких какого какое какой какую ко "
    "когда кого кому которая которые который кто ли меня мне может можно мой мы на над надо нам "
    "нас наш наша наше нашего нашей нашем наши нашу не него нее нет ни них но ну нужно о об он она "
    "они оно от откуда очень по под почему при про с свой себя сколько со так также такой там то "
    "того тоже только том ты у уже чего чей чем через что чтобы эта эти это этого этой этом этот "
    "эту я або але був була було та чи що як яка яке який які коли де хто чому для з із від є це",
    # Arabic
    "في من الي علي عن ما ماذا متي اين كيف كم لماذا هل هو هي هم هذا هذه ذلك تلك التي الذي الذين و او "
    "ثم ان انا نحن انت كان كانت يكون تكون يتم تم قد لا لم لن اي ايه مع بعد قبل عند كل بين لنا لدينا "
    "هناك يمكن يمكنني يجب لكن حتي اذا",
    # Hindi
    "का के की को से में पर है हैं था थी थे हो होता होती होते कब कहां कहां क्या क्यों कैसे कौन कौनसा "
    "कितना कितनी कितने किस किसे किसने किसका किसकी और या यह ये वह वे इस उस इन उन जो तो भी ही ने लिए "
    "तक एक हम हमें हमारा हमारे हमारी मैं मुझे आप अपना अपने अपनी कर करना करते करती करता किया जाता जाती "
    "जाते गया गई रहा रही रहे कि नहीं साथ चाहिए",
    # Greek and Hebrew
    "ο η το οι τα του τησ των τον την στο στη στην στον και να με για απο που πωσ ποτε ποιοσ ποια "
    "ποιο τι γιατι ειναι θα δεν σε ενα μια "
    "של את על הוא היא הם זה זו מה מי מתי איפה איך למה כמה האם או גם לא כל עם אל אני אנחנו שלנו יש "
    "אין כדי איזה",
)  # fmt: skip

STOP_WORDS: frozenset[str] = frozenset(" ".join(_LISTS).split())
