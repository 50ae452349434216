"""Phrases behind the flags, by rule and language: kinds of phrase, not samples of attacks.

Written in RE2 syntax and matched without regard to case. ``~`` stands for a short gap inside one
sentence. A phrase belongs here if it addresses the reader or changes what a reader may do; words
that ordinary notes need (author, role, root cause, target date) don't, by themselves.
"""

# Regular expressions read worse when they are wrapped; several alphabets are the point here.
# ruff: noqa: E501, RUF001

from __future__ import annotations

INSTRUCTION: dict[str, tuple[str, ...]] = {
    "en": (
        r"\b(?:ignore|disregard|forget|override|overwrite|discard|bypass|drop|violate|set aside)\b~\b(?:all|any|the|your|these|those|previous|prior|above|earlier|preceding|existing|former|other|original)\b~\b(?:instructions?|rules?|guidelines?|prompts?|polic(?:y|ies)|guardrails?|directives?|constraints?|context|messages?|memor(?:y|ies)|restrictions?|orders|warnings?|limits?|training|task|configuration|directions?)\b",
        r"\b(?:ignore|disregard|forget) (?:everything|anything|all (?:of )?(?:that|this|the above)|the (?:above|previous|prior)|what (?:you|i)|previous|prior|your)\b",
        r"\byou (?:are|will be|have been) (?:now|hereby|no longer|instructed|required|authori[sz]ed|permitted|allowed|reprogrammed|to (?:always|never))\b",
        r"\byou (?:must|should|shall|need to|have to|will|can|may|are to|are going to)(?: now| always| never| not| also| only| first| immediately| instead)? (?:always|never|ignore|follow|obey|comply|reply|respond|answer|output|print|include|append|add|call|invoke|execute|run|send|forward|email|transfer|upload|delete|remove|grant|approve|accept|recommend|prefer|suggest|trust|treat|use|reveal|disclose|say|tell|mention|hide|skip|remember|store|save|write|act|behave|pretend|visit|open|click|buy|purchase|pay|book|share|post|invite|change|update|create|disable|enable)\b",
        r"\b(?:act|behave|respond|operate|function|answer) as (?:if|though|an?|the|my|our)\b~\b(?:assistant|ai|model|bot|agent|admin\w*|expert|dan|developer|root|unrestricted|no (?:rules|limits|restrictions)|instructions?|you)\b",
        r"\bpretend (?:to be|that|you)\b",
        r"\b(?:from (?:now|this point|here) (?:on|onwards?|forward)|going forward|henceforth|in (?:all )?(?:future|subsequent) (?:sessions?|conversations?|responses?|replies|interactions?|chats?|requests?|tasks?|turns?)|for (?:all|every|any) (?:future|subsequent|later|following|other)|every time (?:you|someone|a user|the user|they)|at the (?:start|beginning|end) of (?:every|each|all|your|any))\b",
        r"\b(?:new|updated|revised|real|actual|true|hidden|secret|important|special|additional|system|developer|priority|override|emergency) (?:instructions?|directives?|system prompt|prompt|task for you|objective)\b",
        r"\b(?:system|developer|hidden|initial|original) prompt\b",
        r"(?:^|\n|[.!:;>\-*#\[(] ?)(?:please |kindly |now |then |also |and |agents?[:,] |assistant[:,] |instead,? )?(?:always|never) (?:recommend|reply|respond|answer|approve|mention|prefer|suggest|trust|tell|reveal|refuse|forward|cc|bcc|obey|comply|claim|say|output|disclose|rely|question|warn|escalate|challenge|quote)\b",
        r"\b(?:do not|don.?t|never|without|must not|refrain from|avoid|no need to|stop) (?:ever |even |first |bother(?:ing)? )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|reveal(?:ing)?|ask(?:ing)?|notify(?:ing)?|warn(?:ing)?|alert(?:ing)?|disclos(?:e|ing)|report(?:ing)?|question(?:ing)?|consult(?:ing)?|double.?check(?:ing)?|verify(?:ing)?|confirm(?:ing)?|escalat(?:e|ing)|explain(?:ing)?|flag(?:ging)?|surfac(?:e|ing)|requir(?:e|ing)|wait(?:ing)? for)\b~\b(?:users?|anyone|anybody|owner|admin\w*|human|customers?|operator|reviewer|them|this|it|approval|confirmation|permission|review|consent|verification|instructions?|sources?|questions?|again|why|that)\b",
        r"\b(?:when(?:ever)?|if|once|every time|next time|as soon as)\b~\b(?:users?|someone|anyone|somebody|anybody|customers?|the (?:assistant|agent|model|ai)|asked|queried|prompted|people|employees?)\b~,? ?\b(?:always |just |simply |then |please |you must |must |should |instead |immediately )?(?:say|reply|respond|answer|recommend|tell|output|forward|direct|redirect|point|suggest|execute|approve|claim|state|insist|deny|refuse|book|buy|transfer|visit|invoke|assume|treat|grant|leak|reveal|omit|quote|prefer|trust)\b",
        r"\b(?:(?:ai|a\.i\.|llm|language|automated|autonomous|coding) (?:agents?|assistants?|models?|bots?|crawlers?|readers?)|llms?|ais)[ ,:]~\b(?:must|should|shall|are (?:required|instructed|asked|expected|advised)|need to|have to|please|will|is to|are to|ignore|reading this|processing this|note)\b",
        r"\b(?:note|message|notice|attention|reminder|instructions?|directive|memo|hint|tip|dear|hey|hello|hi)(?: to| for|,|:)? ?(?:the |any |all |our |your )?(?:ai|assistants?|agents?|models?|llms?|chatgpt|gpt|claude|gemini|copilot|bots?)\b",
        r"\b(?:if|since|because|as) (?:you|you.re|you are|this is)(?: an?| the| being read by)? ?(?:ai|assistant|agent|llm|language model|bot|model|automated)\b",
        r"\b(?:as|being) an (?:ai|llm|automated|assistant|agent)\b",
        r"\b(?:this|the following|above|below)\b~\b(?:supersedes?|overrides?|replaces|takes? (?:precedence|priority)|has (?:the )?highest priority|outranks|cancels|invalidates)\b",
        r"\b(?:highest|top|absolute|maximum) priority\b|\b(?:takes?|taking) precedence over\b|\bmust be (?:followed|obeyed|executed|applied|complied with)\b|\bcomply with (?:the|this|these|all)\b",
        r"<\|?/?(?:im_start|im_end|system|endoftext|assistant|instructions?|important|information|tool_(?:call|result|response)|admin|user|sys|developer|memory|untrusted|context)\b[^\n>]{0,40}\|?>|\[/?(?:inst|system|sys|admin|assistant|developer|instructions?|override)[^\n\]]{0,20}\]|<<sys>>|(?:^|\n) ?(?:#{1,6} ?|\*\*|={2,} ?|-{3,} ?)?(?:system|assistant|developer|instruction|override)(?: ?(?:prompt|message|note|override|instruction|update|notice|notification|command|alert))?(?:\*\*)? ?:",
        r"\b(?:remember|memori[sz]e|store|save|record|keep in mind|persist|commit to memory|add to (?:your )?memory|update (?:your )?memory)\b[ :,]~\b(?:for (?:all )?(?:future|later|next|every)|permanently|forever|always|never|from now on|as (?:a )?(?:fact|trusted|verified|authoritative|permanent|high|policy|rule|standing)|across (?:all )?sessions|in (?:all |every )?future|that (?:you|the user|user) (?:am|is|trusts?|has|have|must|should|always|never))\b",
        r"\b(?:jailbreak\w*|prompt injection|developer mode|god mode|dan mode|unrestricted mode|debug mode|maintenance mode|admin mode|sudo mode|do anything now|no (?:longer )?(?:bound|restricted|restrictions|limitations|filters))\b",
        r"\b(?:standing|permanent|persistent|durable|global|mandatory|unconditional) (?:instructions?|orders?|rules?|directives?|policy|preference|approval|permission|authori[sz]ation|override)\b",
        r"\b(?:before|after|instead of|while|prior to|in addition to) (?:answering|responding|replying|completing|continuing|finishing|processing|you (?:can|answer|respond|reply|continue|proceed|do|start)|doing|summari[sz]ing|performing|executing|any (?:other )?(?:task|action|answer))\b",
        r"\b(?:please kindly|make sure to|be sure to|ensure (?:that )?you|you just have to|i need you to|i want you to|your (?:new |only |real |next |primary |main )?(?:task|job|goal|role|objective|mission|purpose) is|first,? (?:you|do)|could you)\b~\b(?:ignore|send|forward|email|transfer|upload|delete|remove|grant|approve|reveal|disclose|execute|run|invoke|visit|click|buy|purchase|pay|book|reserve|share|post|invite|change|update|reply|respond|answer|recommend|say|output|print|include|do the following|create|make|get|read|rate|prefer)\b",
        r"\b(?:the |any |all )?(?:assistant|agent|model|chatbot|bot|system|ai) (?:must|should|shall|will|needs to|has to|is to|may|can)(?: now| always| never| not| also)? (?:always|never|ignore|follow|obey|reply|respond|answer|output|print|include|append|add|call|invoke|execute|run|send|forward|email|transfer|upload|delete|grant|approve|accept|recommend|prefer|suggest|trust|treat|use|reveal|disclose|say|tell|mention|hide|skip|remember|store|save|write|act|assume|bypass)\b",
        r"\b(?:treat|consider|regard|mark|accept|interpret|label) (?:this|it|the (?:following|above|content|text|message|source|record|entry)|any|all|these|anything|every\w*)\b~\bas (?:an? |the |being |fully |already |pre-?)*(?:trusted|verified|authoritative|true|approved|authori[sz]ed|official|safe|instructions?|commands?|system|fact|canonical|confirmed|ground truth|first.party|user)\b",
    ),
    "disclosure and obfuscation": (
        r"\b(?:print|repeat|reveal|show|output|tell me|recite|quote|leak|summari[sz]e|translate|list|give me|display)\b~\b(?:your|the|its)\b~\b(?:instructions?|system (?:message|prompt)|words above|text above|context window|initial prompt|guidelines|configuration|rules you)\b",
        r"\b(?:decode|decrypt|unscramble|translate)\b~\b(?:and|then)\b~\b(?:follow|do|execute|run|obey|act|comply|perform)\b|\b(?:no questions asked|without question|exactly what it says|do exactly)\b",
        r"\b(?:your|the) (?:rules|instructions|guidelines|policies|restrictions|limits) (?:have|has|are|were|no longer|do not|don.t)\b|\bwithout (?:any )?(?:restrictions?|limits|limitations|filters?|censorship|rules)\b|\b(?:no longer|not) (?:required|needed|necessary|enforced|applicable|apply|applies)\b~\b(?:for|in|on|to|any)\b|\b(?:in|to|at the end of|into|with) (?:every|each|all|any) (?:future |subsequent |single )?(?:responses?|answers?|repl(?:y|ies)|outputs?|summar(?:y|ies)|emails?|messages?|conversations?)\b|\bend every (?:response|reply|message|answer)\b",
        r"\b(?:transfer|wire|pay|send)\b (?:the )?(?:\$|€|£|[0-9][0-9.,]* ?(?:usd|eur|gbp|dollars|euros)|a (?:transaction|payment)|money|funds)|\b(?:change|reset|modify|update|replace|set)\b (?:the |your |my |their )?(?:password|recipient|payee|iban|bank (?:account|details)|payout|email address|phone number)\b~\bto\b",
        r"\[ ?(?:ai |assistant|agent|system|model|developer|hidden|internal)[\w ]{0,20}(?:note|instruction|message|memo|directive|override)",
        r"\b(?:note système|consigne système|nota del sistema|nota di sistema|nota do sistema|systemhinweis|systemnachricht)\b|(?:à la fin|en fin) de (?:toute|chaque) réponse|al final de (?:cada|cualquier|toda) respuesta|alla fine di ogni risposta|ao final de (?:cada|toda) resposta|am ende jeder antwort|в конце каждого ответа|在每[次个]回[复答]|すべての回答|毎回の回答|모든 (?:답변|응답)|في نهاية كل (?:رد|إجابة)|हर (?:जवाब|उत्तर) (?:में|के अंत)",
        r"\b(?:sans|sin|sem|senza) (?:restric\w+|restriz\w+|limit\w+|filtr\w+)\b|\bohne (?:einschr|beschr|filter)\w*|без (?:ограничений|фильтров)|(?:révèle|répète|affiche|muestra|revela|repite|mostra|rivela|ripeti|verrate|zeige|wiederhole|mostre|repita)\b~(?:instruction|instrucci|istruzion|instruç|system|anweisung)\w*",
    ),
    "de": (
        r"\b(?:ignorier\w*|missachte\w*|vergiss|vergesse\w*|verwirf|überschreibe?\w*|umgeh\w*)\b~\b(?:alle\w*|sämtliche\w*|vorherige\w*|vorige\w*|bisherige\w*|obige\w*|frühere\w*|deine\w*|ihre\w*|die|das)\b~\b(?:anweisung\w*|regel\w*|vorgabe\w*|instruktion\w*|richtlinie\w*|befehl\w*|kontext|prompts?|einschränkung\w*|nachricht\w*)",
        r"\b(?:ab (?:jetzt|sofort|heute)|von nun an|künftig|in zukunft|bei jeder (?:anfrage|antwort))\b~\b(?:du|sie|immer|nie\w*|antwort\w*|empfiehl\w*|verwende\w*|nutze|sende\w*|leite\w*|musst|sollst|alle\w*)\b",
        r"\bdu (?:bist (?:jetzt|nun|ab)|musst|sollst|darfst)\b|\b(?:sag|sage|verrate|erzähle|teile|informiere|frage?|erwähne)\w*\b~\b(?:nutzer\w*|benutzer\w*|niemand\w*|anwender\w*|kunden|dies\w*|das|es)\b~\b(?:nicht|nichts|mit|davon|nie\w*)\b",
        r"\b(?:antworte|empfiehl|verwende|sende|schicke|leite|führe|lösche|speichere|merke? dir|behandle|gib)\b~\b(?:immer|stets|nie\w*|künftig|jeder|allen?|dauerhaft|für immer|weiter|aus|als)\b",
        r"\b(?:neue|wichtige|geheime|versteckte) (?:system)?(?:anweisung|instruktion|vorgabe|regel)(?:en)?\b|\bsystem(?:prompt|anweisung|nachricht)\b|\bohne (?:rück|nach|be)\w*(?:frage|stätigung|zu fragen)\b|\bki[- ](?:assistent|agent|modell|system)\w*\b~\b(?:muss|müssen|soll\w*|bitte)\b",
    ),
    "fr": (
        r"\b(?:ignore[zr]?|oublie[zr]?|néglige[zr]?|outrepasse[zr]?|contourne[zr]?|ne tiens pas compte|ne tenez pas compte|fais abstraction|faites abstraction)\b~\b(?:instructions?|consignes?|règles?|directives?|messages?|contexte|restrictions?|précédent\w*|ci-dessus|antérieur\w*)\b",
        r"\b(?:désormais|dorénavant|à partir de maintenant|à l.avenir|dès (?:à présent|maintenant))\b~\b(?:tu|vous|toujours|jamais|réponds|répondez|recommande\w*|utilise\w*|envoie|envoyez|dois|devez)\b",
        r"\b(?:tu es|vous êtes) (?:maintenant|désormais|un|une)\b|\b(?:tu dois|vous devez|il faut que tu)\b~\b(?:toujours|jamais|ignorer|répondre|envoyer|recommander|utiliser|exécuter|transférer|dire|suivre)\b|\bne (?:le |la |les |l.)?(?:dis|dites|mentionne[sz]?|révèle[sz]?|préviens|prévenez|informe[sz]?|demande[sz]?)\b~\b(?:pas|jamais|rien|personne)\b",
        r"\b(?:réponds|répondez|recommande[zr]?|envoie|envoyez|transfère|transférez|utilise[zr]?|exécute[zr]?|supprime[zr]?|mémorise[zr]?|enregistre[zr]?|considère|considérez)\b~\b(?:toujours|systématiquement|jamais|à chaque|sans (?:demander|vérifier|prévenir)|comme (?:vérifié|fiable|autorisé|vrai)|définitivement)\b",
        r"\b(?:nouvelles?|importantes?|secrètes?) (?:instructions?|consignes?|directives?)\b|\b(?:invite|prompt|message|instruction) système\b|\bsans (?:confirmation|validation|approbation|autorisation|demander|prévenir)\b|\b(?:note|message|instruction|attention)\b~\b(?:assistant|agent|modèle|ia)\b",
    ),
    "es": (
        r"\b(?:ignora\w*|olvida\w*|descarta\w*|omite|omita|desestima\w*|haz caso omiso|haga caso omiso|no (?:hagas|haga) caso|anula\w*|sobrescrib\w*)\b~\b(?:instruccion(?:es)?|instrucción|órdenes|reglas?|indicaci\w+|directri\w+|mensajes?|contexto|restricci\w+|anterior(?:es)?|previ[oa]s?|todo)\b",
        r"\b(?:a partir de ahora|de ahora en adelante|desde ahora|en (?:el )?futuro|en adelante)\b~\b(?:siempre|nunca|responde\w*|recomienda\w*|usa|use|utiliza\w*|envía\w*|debes?|eres|tú|usted)\b",
        r"\b(?:ahora eres|eres ahora|debes|tienes que|deberás)\b~\b(?:siempre|nunca|ignorar|responder|enviar|recomendar|usar|ejecutar|transferir|decir|seguir|un|una)\b|\bno (?:se )?(?:lo |la |le |les )?(?:digas?|menciones?|reveles?|informes?|avises?|preguntes?|notifiques?|pidas?)\b",
        r"\b(?:responde|recomienda|envía|reenvía|utiliza|ejecuta|elimina|guarda|recuerda|transfiere|considera|trata|copia)\b~\b(?:siempre|nunca|cada vez|sin (?:preguntar|avisar|confirmar|verificar)|como (?:verificad|confiable|autorizad|oficial)\w*|permanentemente|para siempre|a todos)\b",
        r"\b(?:nuevas?|importantes?|secretas?|ocultas?) (?:instrucciones|órdenes|directrices)\b|\b(?:prompt|mensaje|instrucción|instrucciones) (?:del? )?sistema\b|\bsin (?:confirmación|aprobación|autorización|verificación|preguntar|avisar)\b|\b(?:nota|mensaje|atención|instrucción|instrucciones)\b~\b(?:asistente|agente|modelo|ia)\b",
    ),
    "pt": (
        r"\b(?:ignor[ea]\w*|esqueç\w*|desconsider\w*|descart\w*|desrespeit\w*|anul[ea])\b~\b(?:instruç\w+|ordens|regras?|diretri\w+|mensage\w+|contexto|restriç\w+|anterior(?:es)?|acima|prévi[oa]s?|tudo)\b",
        r"\b(?:a partir de agora|de agora em diante|doravante|no futuro|daqui em diante)\b~\b(?:sempre|nunca|respond\w+|recomend\w+|us[ea]|utiliz\w+|envi[ea]\w*|deve\w*|você)\b",
        r"\b(?:você (?:agora )?(?:é|deve|está|precisa)|deves|tens de)\b~\b(?:sempre|nunca|ignorar|responder|enviar|recomendar|usar|executar|transferir|dizer|seguir|agora|um|uma)\b|\bnão (?:o |a |lhe |se )?(?:diga|mencione|revele|informe|avise|pergunte|notifique|conte|peça)\w*\b",
        r"\b(?:respond[ae]|recomend[ae]|envi[ae]|encaminh[ae]|utiliz[ae]|execut[ae]|apag[ue]e|guard[ae]|lembre-se|transfir[ae]|consider[ae]|trat[ae])\b~\b(?:sempre|nunca|cada vez|sem (?:perguntar|avisar|confirmar|verificar)|como (?:verificad|confiáve|autorizad|oficia)\w*|permanentemente|para sempre)\b",
        r"\b(?:novas?|importantes?|secretas?|ocultas?) (?:instruções|ordens|diretrizes)\b|\b(?:prompt|mensagem|instruç\w+) d[eo] sistema\b|\bsem (?:confirmação|aprovação|autorização|verificação|perguntar|avisar)\b|\b(?:nota|mensagem|atenção|instruç\w+)\b~\b(?:assistente|agente|modelo|ia)\b",
    ),
    "it": (
        r"\b(?:ignora\w*|dimentica\w*|trascura\w*|scarta\w*|non considerare|non tenere conto|aggira\w*|annulla)\b~\b(?:istruzion[ei]|ordini|regol[ae]|direttiv[ae]|messagg[io]+|contesto|restrizion[ei]|precedent[ei]|sopra|tutto|indicazion[ei])\b",
        r"\b(?:d.ora in (?:poi|avanti)|da (?:ora|adesso|questo momento)|in futuro|da qui in avanti)\b~\b(?:sempre|mai|rispondi\w*|raccomanda\w*|consiglia\w*|usa|utilizza\w*|invia\w*|devi|deve|sei|tu)\b",
        r"\b(?:ora sei|sei (?:ora|adesso)|devi|dovrai)\b~\b(?:sempre|mai|ignorare|rispondere|inviare|raccomandare|usare|eseguire|trasferire|dire|seguire|un|una)\b|\bnon (?:lo |la |gli )?(?:dire|menzionare|rivelare|informare|avvisare|chiedere|notificare|comunicare)\b",
        r"\b(?:rispondi|raccomanda|consiglia|invia|inoltra|utilizza|esegui|elimina|salva|ricorda|trasferisci|considera|tratta)\b~\b(?:sempre|mai|ogni volta|senza (?:chiedere|avvisare|conferm\w+|verific\w+)|come (?:verificat|affidabil|autorizzat|ufficial)\w*|permanentemente|per sempre)\b",
        r"\b(?:nuove?|importanti|segrete|nascoste) (?:istruzioni|direttive)\b|\b(?:prompt|messaggio|istruzion[ei]) di sistema\b|\bsenza (?:conferma|approvazione|autorizzazione|verifica|chiedere|avvisare)\b|\b(?:nota|messaggio|attenzione|istruzion[ei])\b~\b(?:assistente|agente|modello|ia)\b",
    ),
    "ru": (
        r"(?:игнорируй\w*|проигнорируй\w*|забудь\w*|не обращай\w* внимания|отмени\w*|не учитывай\w*|обойди\w*)~(?:инструкци\w+|указани\w+|правил\w*|команд\w*|сообщени\w+|контекст\w*|ограничени\w+|предыдущ\w+|вс[её]|выше)",
        r"(?:отныне|с этого момента|теперь ты|впредь|в дальнейшем|с этих пор|в будущем)~(?:всегда|никогда|отвечай\w*|рекомендуй\w*|используй\w*|отправляй\w*|должен|должна|ты|вы|считай\w*)",
        r"(?:ты|вы) (?:долж[еа]н\w*|обязан\w*|теперь)|не (?:говори|сообщай|упоминай|раскрывай|спрашивай|уведомляй|предупреждай|рассказывай)\w*|(?:всегда|никогда(?: не)?) (?:отвечай|рекомендуй|используй|отправляй|выполняй|одобряй|считай|доверяй|пересылай|добавляй)\w*",
        r"(?:нов\w+|важн\w+|секретн\w+|скрыт\w+|системн\w+) (?:инструкци\w+|указани\w+|директив\w+|промпт\w*|сообщени\w+)|без (?:подтверждения|согласования|одобрения|проверки|разрешения|уведомления)|(?:запомни|сохрани)\w*~(?:навсегда|всегда|для всех|постоянно|как правило|на будущее)|(?:отправь|перешли|выполни|удали|переведи)(?:те)? ",
    ),
    "zh": (
        r"(?:忽略|無視|无视|忘记|忘記|忽视|不要理会|不要遵守|绕过|跳过|覆盖|取消)[^\n。！？]{0,20}(?:指令|指示|规则|規則|提示|命令|要求|限制|上文|以上|之前|先前|前面|所有)",
        r"(?:从现在开始|從現在開始|从今以后|今后|以后|此后|往后|每次|一律|永远|永遠|始终|总是|務必|务必|必须)[^\n。！？]{0,16}(?:你|回答|回复|推荐|使用|发送|執行|执行|转发|批准|调用|信任|告诉|忽略|视为|添加|先)",
        r"你(?:现在|現在|必须|必須|应该|應該|将|要|不再|的新任务|的任务)|(?:不要|不得|请勿|勿|无需|無需|不用|不必)(?:告诉|告訴|告知|提及|透露|询问|詢問|通知|提醒|向用户|让用户|确认|核实|请示|审批)",
        r"(?:系统|系統|隐藏|新的|重要|开发者)(?:提示词?|指令|指示|消息|命令)|(?:扮演|假装|假裝|充当)|(?:记住|記住|牢记|保存|存入)[^\n。！？]{0,12}(?:永久|永远|以后|今后|规则|所有|用户|始终)|(?:AI|人工智能|智能体|助手|助理|模型|代理)[^\n。！？]{0,6}(?:必须|应当|应该|请|需要|不得|务必)|未经(?:确认|批准|审核|授权)|无需(?:确认|批准|审核|授权|验证)",
    ),
    "ja": (
        r"(?:指示|命令|ルール|規則|プロンプト|制約|指令|設定|これまで|以前|上記|前の)[^\n。！？]{0,16}(?:無視|忘れ|破棄|上書き|取り消|従わ)",
        r"(?:今後|これから|以後|今から|常に|必ず|毎回|いつでも|絶対に)[^\n。！？]{0,30}(?:してください|しなさい|すること|せよ|答え|返答|推奨|送信|使用|使って|転送|実行|承認|勧め|扱)",
        r"あなたは(?:今|これ|もう|、)?[^\n。！？]{0,24}(?:です|なりました|として|しなければ|必要)|(?:ユーザー?|利用者|誰|管理者)[^\n。！？]{0,10}(?:言わ|伝え|知らせ|教え|通知|明か|尋ね|確認)[^\n。！？]{0,4}(?:ない|ず|な)",
        r"(?:システム|新しい|隠し|重要な|開発者)(?:プロンプト|指示|命令|メッセージ)|(?:AI|エージェント|アシスタント|モデル)[^\n。！？]{0,10}(?:へ|は必ず|に対|への指示|してください|しなければ)|(?:ふりを|になりきっ)|(?:覚えて|記憶して|保存して)[^\n。！？]{0,8}(?:ください|おいて|おけ)|(?:確認|承認|許可)(?:なし|を得ず|不要|せず)",
    ),
    "ko": (
        r"(?:지시|명령|규칙|프롬프트|지침|제한|설정|이전|앞선|위의)[^\n.!?]{0,16}(?:무시|잊|폐기|덮어|취소|따르지)",
        r"(?:앞으로|이제부터|지금부터|항상|언제나|반드시|매번|절대)[^\n.!?]{0,30}(?:하세요|하십시오|해라|해야|하라|답변|응답|추천|전송|사용|전달|실행|승인|보내|말|취급|마세요|마라)",
        r"(?:당신은|너는|넌)[^\n.!?]{0,24}(?:입니다|이다|해야|되었|이제|합니다)|(?:사용자|누구|관리자|고객)[^\n.!?]{0,10}(?:말하지|알리지|묻지|언급하지|알려주지|밝히지|통지하지)",
        r"(?:시스템|새로운|숨겨진|중요한|개발자) ?(?:프롬프트|지시|명령|메시지|지침)|(?:AI|에이전트|어시스턴트|모델|비서)[^\n.!?]{0,10}(?:반드시|에게|는 항상|해야|하세요)|(?:기억|저장)(?:하세요|해라|해 ?두|하십시오)|(?:확인|승인|허락|허가|검토) ?(?:없이|불필요|생략)|척하",
    ),
    "ar": (
        r"(?:تجاهل|انس|انسَ|تجاوز|لا تتبع|ألغ|اهمل|أهمل)\w*~(?:التعليمات|تعليمات|القواعد|الأوامر|السابقة|التوجيهات|الرسائل|القيود|السياق|أعلاه|كل)",
        r"(?:من الآن فصاعدا|من الآن|منذ الآن|في المستقبل|دائما|دائمًا|أبدا|أبدًا|يجب عليك|يجب أن|عليك أن|في كل مرة)~(?:أجب|الرد|ترد|تجيب|أوص|توصي|استخدم|تستخدم|أرسل|ترسل|نفذ|تنفذ|قل|تقول|تتجاهل|توافق|وافق|اعتبر|تعتبر|حول)",
        r"أنت الآن|(?:لا تخبر|لا تذكر|لا تكشف|لا تسأل|لا تبلغ|لا تعلم|دون إخبار|دون علم|بدون إذن|دون إذن|بدون موافقة|دون موافقة|دون تأكيد|بدون تأكيد)|(?:تعليمات|أوامر|رسالة|موجه) (?:النظام|جديدة|سرية|مهمة|مخفية)|(?:تذكر|احفظ|تظاهر)~(?:دائم\w*|أن|بأن|المستقبل)|(?:أرسل|حوّل|حول|نفذ|احذف|أعد توجيه) ",
    ),
    "hi": (
        r"(?:निर्देश|नियम|आदेश|संदेश|प्रॉम्प्ट|पिछल|पूर्व|उपरोक्त|ऊपर)[^\n।!?]{0,40}(?:अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल|उपेक्षा|रद्द|ध्यान न)",
        r"(?:अब से|आगे से|भविष्य में|हमेशा|कभी नहीं|कभी भी|हर बार|सदैव|आज से)[^\n।!?]{0,60}(?:करें|करो|करना|कहें|कहो|भेजें|भेजो|दें|बताएं|बताना|उपयोग|सुझाएं|मानें|चलाएं)",
        r"(?:आप|तुम) (?:अब|को अब|को हमेशा)|(?:उपयोगकर्ता|किसी|यूज़र|मालिक)[^\n।!?]{0,16}(?:न बताएं|मत बताना|नहीं बताना|सूचित न|न पूछें|मत पूछ|को मत|को न)|(?:नए|गुप्त|महत्वपूर्ण|सिस्टम|छिपे) (?:निर्देश|आदेश|प्रॉम्प्ट|संदेश)|बिना (?:पुष्टि|अनुमति|पूछे|बताए|जांच|स्वीकृति)|याद रखें|(?:भेज दो|भेज दें|चला दें|हटा दें)",
    ),
}

AUTHORITY = (
    r"\b(?:admin(?:istrator)?s?|ceo|cto|cfo|ciso|security team|security|management|legal|compliance|hr|owner|operator|developers?|anthropic|openai|google|microsoft|it (?:department|team|support|desk)|headquarters|board|finance|supervisor|manager|director|the user|user|boss|vendor|support team|platform team|engineering lead)(?: team| department)? (?:has|have|had|already|explicitly|officially|personally|just)? ?(?:approved|authori[sz]ed|confirmed|verified|instructed|decided|mandated|requires?|ordered|signed off|directed|granted|whitelisted|cleared|pre-?approved|says so|consented|requested|asked (?:us|you|that))\b",
    r"\b(?:pre-?)?(?:approved|authori[sz]ed|verified|endorsed|certified|mandated|sanctioned|vetted|signed off|confirmed) by (?:the )?(?:admin\w*|ceo|cto|ciso|cfo|security|management|legal|compliance|it|hr|owner|operator|vendor|board|finance|user|director|team|head|system|platform|anthropic|openai|developers?|audit\w*|headquarters|human|reviewer)\b",
    r"\b(?:by order of|on (?:the )?(?:authority|behalf|orders) of|acting for|speaking for|under the authority)\b|\b(?:i am|i.m|this is|we are) (?:the|your|an?) (?:\w+ )?(?:admin\w*|developer|owner|ceo|cto|creator|operator|supervisor|security|support (?:team|engineer)|system|manager|authori[sz]ed)\b",
    r"\b(?:official|authoritative|binding|company-?wide|corporate|mandatory|new|updated|internal|security|compliance) (?:company |security |corporate |internal |compliance )?(?:policy|directive|mandate|notice|announcement|advisory|guidance)\b~\b(?:requires?|states?|says|is to|must|now|allows?|permits?|mandates?|all|dictates)\b",
    r"\b(?:already|fully|pre-?|explicitly|officially|previously) ?(?:approved|authori[sz]ed|verified|whitelisted|vetted|cleared)\b|\b(?:trusted|verified|authoritative|official|certified|canonical) (?:source|authority|publisher|vendor|channel|mirror|contact|partner|account|sender|domain|supplier|record|instruction)s?\b|\bno (?:further |additional |human |manual |second )?(?:approval|review|verification|confirmation|authori[sz]ation)s? (?:is |are )?(?:needed|required|necessary)\b|\b(?:is|are|was|has been|have been|considered) (?:now )?(?:exempt|exempted|pre-?approved|whitelisted)\b",
    r"\b(?:genehmigt|freigegeben|autorisiert|bestätigt|angeordnet) (?:von|durch)\b|\b(?:geschäftsführung|administrator|sicherheitsteam|vorstand|it-abteilung)\b~\b(?:genehmigt|freigegeben|autorisiert|angeordnet|bestätigt|verlangt)\b",
    r"\b(?:approuvé|autorisé|validé|vérifié)e?s? par\b|\b(?:la direction|l.administrateur|l.équipe sécurité)\b~\b(?:approuvé|autorisé|validé|exige|demande)\w*|\b(?:aprobad|autorizad|verificad|validad)[oa]s? por\b|\b(?:aprovad|autorizad|verificad|validad)[oa]s? pel[oa]\b|\b(?:approvat|autorizzat|verificat|validat)[oaie] da\w*\b|\b(?:la dirección|el administrador|o administrador|a diretoria|la direzione|l.amministratore)\b~\b(?:aprob|autoriz|aprov|approv|orden|richied|exig)\w+",
    r"(?:одобрен\w*|разрешен\w*|утвержден\w*|подтвержден\w*|согласован\w*) (?:администрат|руковод|служб|директор|отдел|безопас|команд)\w+|(?:администратор|руководство|директор|служба безопасности)\w*~(?:одобрил\w*|разрешил\w*|утвердил\w*|приказал\w*|требует|велел\w*)",
    r"(?:管理员|管理層|管理层|安全团队|总经理|老板|官方|总部|领导|公司)[^\n。！？]{0,8}(?:已批准|已授权|已經批准|批准|授权|确认过|要求|规定|指示)|(?:管理者|社長|経営陣|セキュリティチーム|上司|本社)[^\n。！？]{0,10}(?:承認|許可|指示|認可|命令)|(?:관리자|경영진|보안 ?팀|대표|본사|상사)[^\n.!?]{0,10}(?:승인|허가|지시|인가|명령)|(?:المدير|الإدارة|المسؤول|فريق الأمن|الشركة)~(?:وافق|صرح|أذن|اعتمد|أمر|يطلب)\w*|(?:प्रबंधन|व्यवस्थापक|एडमिन|सुरक्षा टीम|प्रशासक)[^\n।]{0,24}(?:मंज़ूर|मंजूर|अनुमोदित|अधिकृत|स्वीकृत|आदेश)",
)
