"""The flags' rules: patterns and the fixed sentence that a reviewer reads for each."""

# Regular expressions read worse when they are wrapped; several alphabets are the point here.
# ruff: noqa: E501, RUF001

from __future__ import annotations

from sams_core.flags.words import AUTHORITY, INSTRUCTION

_GAP = r"[^\n.!?。！？]{0,60}"
_ADDRESS = (
    r"(?:https?://|ftp://|www\.|[\w.+\-]{1,40}@[\w\-]{1,40}\.|webhook|\bs3://|\bexternal\b|\bpastebin\b|\btelegram\b"
    r"|\b(?:[a-z0-9\-]{1,40}\.){1,4}(?:com|net|org|io|dev|app|xyz|ru|cn|info|site|online|example|test|co|ai|me)\b"
    r"|\bIBAN\b|\b[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}\b|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b|\bbitcoin\b|\bwallet\b)"
)
_SEND = (
    r"\b(?:sen[dt]|forward(?:ed)?|e?-?mail(?:ed)?|post|upload|export|transmit|exfiltrate|leak|cc|bcc|submit|sync|publish|mirror|copy"
    r"|share|deliver|relay|report|transfer|pay|wire|route|redirect|pipe|stream|append|attach|back ?up|ship|push|dump|encode"
    r"|sende?n?|schicken?|weiterleiten|leite|übermittel\w*|hochladen|überweis\w*"
    r"|envo(?:ie|yez|yer)|transf(?:ère|érez|érer)|téléverse\w*|partage\w*"
    r"|envía\w*|enviar|reenvía\w*|manda\w*|sube|transfiere|envie|encaminhe\w*|transfira|invia\w*|inoltra\w*|trasferisci|carica)\b"
    r"|(?:отправ|перешл|пересыла|загруз|перевед)\w+|发送|傳送|转发|上传|发到|发给|转账|汇款|送信|転送|アップロード|送って|振り込"
    r"|전송|전달|업로드|보내|송금|أرسل|إرسال|حوّ?ل|ارفع|भेज|अपलोड|ट्रांसफर"
)
DESTINATION = (
    rf"(?:{_SEND})[^\n]{{0,100}}?(?:{_ADDRESS})",
    rf"(?:{_ADDRESS})[^\n]{{0,60}}?(?:发送|傳送|转发|上传|送信|転送|送って|전송|전달|보내|업로드|भेज)",
    r"\b(?:send|forward|e-?mail|post|upload|export|transmit|exfiltrate|leak|submit|share|copy|transfer|dump|encode)\b[^\n.]{0,60}\b(?:conversation|chat history|transcript|customer (?:data|list|records?)|personal data|credentials?|passwords?|secrets?|api keys?|tokens?|private keys?|files?|database|records?|contents?|history|emails?|documents?|user data|context|memory|funds|money|balance|payments?)\b[^\n.]{0,60}\b(?:to|into|via|through|using|with)\b",
    r"!\[[^\]\n]{0,80}\]\(https?://[^\s)]{1,200}[?&=][^\s)]{0,200}\)",
)
COMMAND = (
    r"\brm -[a-z]{0,4}[rf]|\bsudo\s+\S|\bchmod\s+(?:-R\s+)?(?:[0-7]{0,1}777|\+s|a\+)|\b(?:curl|wget|iwr|invoke-webrequest)\s+(?:-|[\x22']?https?:|\S+\.\S+/)[^\n]{0,200}"
    r"|\b(?:bash|sh|zsh|python3?|perl|ruby|node|powershell|pwsh|cmd(?:\.exe)?)\s+(?:-c|-e|-enc\w*|/c)\b|\|\s*(?:sudo\s+)?(?:ba|z)?sh\b"
    r"|\b(?:eval|exec|os\.system|subprocess\.\w{2,12}|child_process|__import__|Function|system|popen|shell_exec)\s?\("
    r"|\bbase64\s+(?:-d|--decode|-D)\b|\b(?:nc|ncat|netcat|socat)\s+-|/dev/tcp/|\bmkfifo\b|\bcrontab\s+-",
    r"\b(?:drop\s+(?:table|database|schema)|delete\s+from\s+\w|truncate\s+table|grant\s+all)\b|\bgit\s+(?:push\s+(?:-f|--force)|reset\s+--hard|config\s+--global)"
    r"|\b(?:pip3?|npm|pnpm|yarn|gem|cargo|go|brew|apt(?:-get)?|uv|npx|uvx|pipx)\s+(?:install|add|i|get|exec|run)\s+(?:-\S+\s+){0,3}(?:https?:|git\+|--(?:index|extra-index)-url|\S+@)|--(?:extra-)?index-url\b|--no-verify\b|--insecure\b|--dangerously\S*|--privileged\b|--trusted-host\b"
    r"|\bkubectl\s+(?:delete|exec)\b|\bterraform\s+destroy\b|\breg\s+add\b|\bset-executionpolicy\b|\b(?:iex|invoke-expression)\b|\bosascript\b|\bdefaults\s+write\b|\b(?:shutdown|mkfs|dd)\s+[-/a-z]",
    r"<script\b|javascript:|\bon(?:error|load|click)\s?=|data:text/html|\$\([a-z]{2,20}[ \)]|;\s?(?:rm|curl|wget|cat)\s+\S|\.\./\.\./|/etc/(?:passwd|shadow)|~/\.(?:ssh|aws|netrc|bashrc|config)|\.ssh/|authorized_keys|\bid_rsa\b",
    r"\b(?:execute|invoke)\b (?:the |this |a |following |an? )*(?:command|shell|code|terminal|payload|snippet|binary|macro)\b|\b(?:call|invoke|use) (?:the )?(?:send|delete|transfer|forward|execute|write|memory|run|shell|admin|export|upload|grant|update|remove|http|post|pay)_[a-z_]{2,40}\b",
)
URL = (
    r"\bhttps?://(?:[^\s/@]{1,80}@|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9a-f:]{2,39}\]|0x[0-9a-f]{8}|[^\s/]{0,60}xn--)",
    r"\b(?:https?://)?(?:[\w\-]{1,40}\.){0,3}(?:bit\.ly|tinyurl\.com|t\.co|goo\.gl|is\.gd|ow\.ly|cutt\.ly|rb\.gy|pastebin\.com|paste\.ee|hastebin\.com|transfer\.sh|file\.io|webhook\.site|requestbin\.\w{2,4}|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)|trycloudflare\.com|serveo\.net|loca\.lt|burpcollaborator\.net|oast\.\w{2,6}|interact\.sh|discord(?:app)?\.com/api/webhooks|hooks\.slack\.com|api\.telegram\.org|gofile\.io|anonfiles\.com|0x0\.st|dnslog\.cn)",
    r"https?://[^\s]{1,200}(?:\{[^}\s]{1,60}\}|\$\{|\{\{|%7[bB]|<[a-z_ ]{2,30}>|\[[A-Z_ ]{3,30}\])|https?://\S{1,200}\.(?:sh|ps1|exe|bat|msi|dmg|pkg|apk|jar|vbs|scr|deb|rpm|whl|pyz|zip)\b",
    r"\b(?:javascript|vbscript|file|intent|smb|ldap|gopher|dict)://|\bdata:(?:text|application)/|\bhttps?://[^\s/]{1,80}\.(?:onion|zip|mov|tk|top|xyz|gq|cf|click)(?:[/:?#\s]|$)|https?://[^\s/]{0,60}(?:evil|attack|malicious|exfil|phish|collect|steal|hack|c2)[^\s/]{0,60}",
    r"\b(?:visit|click|navigate to|browse to|fetch|log ?in (?:at|to|via)|sign in (?:at|to|via)|redirect\w* to|besuche|visite[zr]?|visita|acesse)\b[^\n.]{0,40}https?://|(?:访问|打开|点击|アクセス|開いて|クリック|접속|클릭|방문)[^\n]{0,20}https?://|(?:посети|открой|перейди)\w*[^\n]{0,30}https?://",
)
_ACCESS = r"access|privileges?|permissions?|rights|role|entitlements?"
_GUARD = (
    r"mfa|2fa|multi-?factor|two-?factor|authentication|authori[sz]ation checks?|verification|approvals?|reviews?|guardrails?"
    r"|safety|security|safeguards?|access controls?|moderation|validation|confirmations?|audit\w*|logging|logs|monitoring|alerts?|signature checks?|sandbox\w*|redaction|rate limits?|firewall|antivirus"
    r"|human oversight|oversight|code review|filters?|policy checks?|checks?|warnings?|certificate\w*|ssl|tls|encryption|limits?|restrictions?|quarantine|permissions? checks?|due diligence|escalation|consent"
)
PERMISSION = (
    rf"\b(?:grant|give|assign|elevate|escalate|promote|upgrade|add|provide|extend|allow|authori[sz]e|delegate)\w*\b~\b(?:admin\w*|root|owner|full|unrestricted|write|superuser|elevated|global|all|public|unlimited|complete|any|production|sudo|maintainer)\b~\b(?:{_ACCESS}|users?|everyone)\b",
    rf"\b(?:disabl|bypass|skip|turn(?:s|ed|ing)? off|switch(?:es|ed|ing)? off|circumvent|suppress|deactivat|waiv|eliminat|evad|overrid|exempt)\w*\b~\b(?:{_GUARD})\b",
    rf"\b(?:without|no) (?:any |further |additional |human |manual |prior |the |need for |requiring |asking for |waiting for |second )*(?:{_GUARD}|permission)\b|\b(?:{_GUARD}) (?:is|are|can be|may be|should be|must be|has been|have been) (?:now )?(?:disabled|bypassed|skipped|waived|optional|suspended|off|no longer (?:needed|required|necessary)|not (?:needed|required|necessary)|unnecessary|lifted)\b",
    r"\b(?:make|set|change|mark|switch|share)\b~\b(?:public|world-readable|publicly|anyone with the link|everyone)\b|\b(?:admin|root|superuser|owner|sudo|elevated|full|unrestricted) (?:access|privileges?|permissions?|rights)\b|\b(?:is|as|become|becomes|be) (?:now )?(?:an? |the )?(?:admin(?:istrator)?|superuser|super-?admin|root)\b|\b(?:auto-?approve\w*|allow-?list\w*|white-?list\w*)\b|\badd\b~\bto (?:the )?(?:allow|admin|trusted|safe|sudoers|exception)\w*",
    r"\b(?:from|across|into|for|in|to|share(?:d)? with) (?:all|any|every|another|other) (?:the )?(?:tenants?|projects?|organi[sz]ations?|users?|workspaces?|accounts?|customers?|namespaces?)\b~\b(?:data|memor\w+|records?|access\w*|scopes?|files?|secrets?|notes?|entries)\b|\b(?:org|organi[sz]ation)[- ]?(?:wide|level)? scope\b|\bscope:? ?(?:org|global|all|\*)|\bpromote\b~\b(?:org|global|shared) (?:scope|memory)\b",
    r"\b(?:deaktivier|umgeh|abschalt|überspring|ausschalt)\w*\b~\b(?:prüfung|freigabe|authentifizierung|sicherheit|protokoll|zwei-faktor|genehmigung|filter)\w*|\b(?:admin|root|voll|schreib)(?:zugriff|rechte)\b|\b(?:désactive|contourne)\w*\b~\b(?:vérification|authentification|sécurité|approbation|journal|validation)\w*|\b(?:desactiv|omit|salt|elud|desabilit|ignor|pul)[aeo]\w*\b~\b(?:verificaci|autenticaci|segurid|aprobaci|registr|verificaç|autenticaç|seguran|aprovaç|revisi|revisã)\w*|\b(?:disabilita|disattiva|aggira|salta)\w*\b~\b(?:verific|autentic|sicurezz|approv|controll)\w*|\b(?:droits?|accès|permisos?|acceso|acesso|privilégios?|diritti|accesso) (?:d.|de |di )?(?:admin\w*|root)\b|(?:отключи|обойди|пропусти)\w*~(?:проверк|аутентиф|безопасн|журнал|подтвержд|защит)\w*|права? (?:администратор|root|доступа)\w*|(?:禁用|关闭|绕过|跳过|取消)[^\n。]{0,10}(?:验证|审批|审核|安全|日志|认证|确认|检查|权限)|(?:管理员|root|最高|完全|全部)(?:权限|访问)|(?:授予|提升|开放)[^\n。]{0,12}权限|(?:認証|承認|監査|確認|セキュリティ|検証|ログ)[^\n。]{0,8}(?:無効|省略|スキップ|回避|オフ)|管理者権限|(?:인증|승인|검토|보안|로그|확인|검증)[^\n.]{0,8}(?:비활성|생략|건너뛰|우회|끄)|관리자 ?권한|(?:عطل|تعطيل|تخط|تجاوز)\w*~(?:التحقق|المصادقة|الأمان|الموافقة|المراجعة)|صلاحيات (?:المدير|المسؤول|كاملة)|(?:सत्यापन|प्रमाणीकरण|सुरक्षा|अनुमोदन|समीक्षा|लॉग)[^\n।]{0,16}(?:बंद|अक्षम|छोड़|बायपास)|(?:एडमिन|व्यवस्थापक) (?:अधिकार|एक्सेस|पहुंच)",
)
CREDENTIAL = (
    r"\b(?:share|enter|send|reveal|print|show|collect|read|include|paste|provide|dump|leak|extract|give|disclose|steal|harvest|exfiltrate|output|display|ask (?:for|the user for|them for)|request|obtain|retrieve|list|log|expose|copy|return|store|save)\b[^\n.!?]{0,40}\b(?:passwords?|passphrases?|api[ _-]?keys?|access tokens?|auth tokens?|tokens?|secrets?|credentials?|private keys?|seed phrases?|ssn|social security|credit cards?|card numbers?|cvv|pins?|env(?:ironment)? variables?|\.env|session cookies?|ssh keys?)\b",
    r"\b(?:sende|zeige|verrate|gib|nenne|teile)\w*\b~\b(?:passw[oö]rt\w*|zugangsdaten|geheimnis\w*|api-schlüssel|schlüssel|token)\b|\b(?:envoie|donne|montre|révèle|partage|communique)[zr]?\b~\b(?:mots? de passe|identifiants|clés?|jetons?|secrets?)\b|\b(?:envía|muestra|revela|comparte|dame|proporciona|envie|mostre|revele|compartilhe|forneça)\w*\b~\b(?:contraseñas?|credencia\w+|claves?|senhas?|tokens?|segredos?|secretos?|chaves?)\b|\b(?:invia|mostra|rivela|condividi|fornisci)\w*\b~\b(?:password|credenziali|chiav[ei]|token|segret[io])\b|(?:отправ|покаж|раскр|сообщ)\w*~(?:парол|ключ|токен|секрет|учетн|учётн)\w*|(?:发送|显示|透露|提供|告诉|泄露|收集)[^\n。]{0,16}(?:密码|密钥|令牌|凭证|凭据)|(?:パスワード|認証情報|秘密鍵|トークン|APIキー)[^\n。]{0,12}(?:送|教え|表示|開示|共有|提供)|(?:비밀번호|자격 ?증명|토큰|비밀키|API ?키)[^\n.]{0,12}(?:보내|알려|표시|공개|공유|제공|전송)|(?:أرسل|أظهر|اكشف|شارك|أعط)\w*~(?:كلمة المرور|كلمات المرور|بيانات الاعتماد|المفاتيح|الرموز)|(?:पासवर्ड|क्रेडेंशियल|टोकन|कुंजी)[^\n।]{0,20}(?:भेज|बता|दिखा|साझा)",
)

# Rule id, the fixed sentence shown to the reviewer, and the pattern, matched without case.
TEXT_RULES: tuple[tuple[str, str, str], ...] = tuple(
    (rule, why, "(?i)(?:" + "|".join(phrases).replace("~", _GAP) + ")")
    for rule, why, phrases in (
        (
            "instruction-like",
            "reads like an instruction to whoever reads it, not like a note",
            tuple(phrase for phrases in INSTRUCTION.values() for phrase in phrases),
        ),
        ("authority-claim", "claims that somebody approved, ordered or verified it", AUTHORITY),
        ("data-destination", "names a place that data should be sent to", DESTINATION),
        ("command", "contains a command or code that acts if run", COMMAND),
        ("url", "contains an address that hides, shortens or collects, or asks to open one", URL),
        ("permission-change", "widens access or switches off a control", PERMISSION),
        ("credential", "asks for a password, key or token", CREDENTIAL),
    )
)
