"""Forms of one word share a root, in languages the code was never told about."""

from __future__ import annotations

from typing import Any

import pytest

from sams_core.search.folding import fold
from sams_core.search.stopwords import STOP_WORDS
from sams_core.search.terms import piece_terms

FORMS = {
    "english": (
        "deploy/deployment deployed/deploying bill/billing running/runs ran/run keys/key "
        "policy/policies rotate/rotation rotates/rotating migrate/migrations decide/decision "
        "retain/retention approve/approval expire/expiry expires/expiration own/owner "
        "owner/ownership maintain/maintenance respond/response configure/configuration "
        "config/configuration authenticate/authentication auth/authentication "
        "encrypt/encryption delete/deletion store/storage fail/failure failing/failed "
        "test/tester release/releases schedule/scheduling customer/customers "
        "prefer/preference invoice/invoicing use/using used/uses access/accessible "
        "secure/security box/boxes index/indices query/queries analyse/analysis cache/caching "
        "cached/caches stop/stopped plan/planning notify/notification replicate/replicas "
        "write/written send/sent build/built pay/paid payment/pay pays/paying try/tries "
        "tried/try child/children person/people database/databases archive/archival "
        "subscribe/subscription permit/permission allow/allowed describe/description "
        "receive/reception compress/compression choose/chosen limit/limits limited/limit"
    ),
    "german": (
        "schlüssel/schlüssels rechnung/rechnungen läuft/laufen kunde/kunden "
        "erneuert/erneuerung passwort/passwörter verschlüsselt/verschlüsselung "
        "sicherung/sicherungen dienst/dienste server/servern zugriff/zugriffe konto/konten "
        "frist/fristen vertrag/verträge löschen/gelöscht löschung/löschen prüfen/prüfung "
        "haus/häuser buch/bücher benutzer/benutzern zahlt/zahlung bestellen/bestellung "
        "speichern/speicherung schluessel/schlüssel abrechnung/abrechnungsdeployment "
        "datenbank/datenbanken kundendaten/kunde wartungsfenster/wartung team/teams "
        "startet/starten"
    ),
    "french": (
        "déploiement/déployer déployé/déploient clé/clés facture/factures facturation/facture "
        "serveur/serveurs renouvelé/renouvellement conserver/conservation "
        "sauvegarde/sauvegarder chiffré/chiffrement base/bases client/clients "
        "journal/journaux paiement/payer accès/accéder suppression/supprimer mise/mises "
        "nouveau/nouvelle expire/expiration échec/échouer l'utilisateur/utilisateurs"
    ),
    "spanish": (
        "despliegue/desplegar despliega/despliegues clave/claves factura/facturación "
        "facturas/facturar servidor/servidores rotar/rotación registro/registrar "
        "conserva/conservación copia/copias pago/pagar pagos/pagamos borra/borrado "
        "eliminar/eliminación acceso/acceder usuario/usuarios contraseña/contraseñas "
        "error/errores sesión/sesiones revisa/revisión caduca/caducidad"
    ),
    "portuguese": (
        "implantação/implantar chave/chaves fatura/faturamento faturas/faturar "
        "servidor/servidores registro/registrar pagamento/pagar acesso/acessar "
        "usuário/usuários senha/senhas sessão/sessões revisão/revisões versão/versões "
        "expira/expiração exclusão/excluir relatório/relatórios"
    ),
    "russian": (
        "ключ/ключи ключей/ключами база/базы базе/баз развёртывание/развернуть "
        "хранить/хранятся хранение/храним журнал/журналов доступ/доступа платёж/платежи "
        "платежей/платёжный сервер/серверов копия/копии копий/копию шифруем/шифрование "
        "сессия/сессий клиент/клиентами счёт/счета задача/задач задачи/задачам "
        "команда/команды неделя/недели недель/неделю удалить/удаление проверка/проверить "
        "пользователь/пользователей запуск/запускать пароль/пароли"
    ),
    "turkish": (
        "dağıtım/dağıtımı dağıtılır/dağıtım anahtar/anahtarları sunucu/sunucular "
        "sunucuyu/sunucunun yedek/yedeği yedekler/yedekleme kod/kodu kodlar/kodun "
        "veri/verileri kayıt/kayıtlar kaydı/kayıt rapor/raporlar raporu/raporlama "
        "kullanıcı/kullanıcılar ödeme/ödemeler şifre/şifreler şifreleme/şifrelenir ekip/ekibi "
        "müşteri/müşterinin hata/hatalar hatayı/hatası gün/günler"
    ),
    "arabic": (
        "مفتاح/المفتاح المفاتيح/مفاتيح سجل/سجلات السجلات/بسجلات خادم/الخادم نشر/النشر "
        "نشر/يُنشر جلسة/الجلسات للجلسات/جلسة بوابة/بوابات شهادة/شهادات فرع/الفرع "
        "مستخدم/المستخدمين للمستخدمين/مستخدم والفواتير/فواتير تشفير/مشفرة متدرب/للمتدربين"
    ),
    "hindi": (
        "कुंजी/कुंजियाँ कुंजियों/कुंजी सर्वर/सर्वरों रिपोर्ट/रिपोर्टों शाखा/शाखाओं "
        "शाखाएँ/शाखा बैकअप/बैकअपों प्रमाणपत्र/प्रमाणपत्रों ग्राहक/ग्राहकों "
        "जिम्मेदारी/ज़िम्मेदार बदलना/बदली रखा/रखे टीम/टीमें भुगतान/भुगतानों"
    ),
    "polish": (
        "klucz/klucze klucza/kluczy wdrożenie/wdrożenia wdrażamy/wdrożenie serwer/serwery "
        "serwera/serwerów kopia/kopie kopii/kopię baza/bazy danych/dane "
        "użytkownik/użytkowników płatność/płatności zespół/zespołu"
    ),
    "italian": (
        "chiave/chiavi pagamento/pagamenti servizio/servizi rilascio/rilasci accesso/accessi "
        "registro/registri fattura/fatturazione cliente/clienti copia/copie cifrato/cifratura"
    ),
    "dutch": (
        "sleutel/sleutels betaling/betalingen server/servers bewaard/bewaren uitgerold/uitrol "
        "klant/klanten versleuteld/versleuteling database/databases"
    ),
    "greek": ("κλειδί/κλειδιά βάση/βάσεις διακομιστής/διακομιστές αντίγραφο/αντίγραφα"),
    "hebrew": ("מפתח/המפתחות שרת/בשרתים גיבוי/הגיבויים"),
    "finnish": (
        "avain/avaimet palvelin/palvelimella tietokanta/tietokannan varmuuskopio/varmuuskopiot"
    ),
    "indonesian": ("kunci/kuncinya server/servernya pembayaran/bayar penyimpanan/simpan"),
}
UNRELATED = (
    "contract/content server/service user/use state/static test/text branch/brand report/repository "
    "notice/notification number/name deploy/depend backup/background session/secret account/access "
    "index/individual release/relevant company/complete date/data day/data port/point mail/main"
)


def forms(word: str) -> set[str]:
    return {form for term in piece_terms(word) for form in term.forms if len(form) > 1}


def together(pairs: str) -> list[str]:
    return [pair for pair in pairs.split() if forms(pair.split("/")[0]) & forms(pair.split("/")[1])]


def test_most_word_forms_find_each_other() -> None:
    found = asked = 0
    for language, pairs in FORMS.items():
        hits = together(pairs)
        found, asked = found + len(hits), asked + len(pairs.split())
        missed = [pair for pair in pairs.split() if pair not in hits]
        print(f"{language:12} {len(hits):3}/{len(pairs.split()):3}  missed: {' '.join(missed)}")
    print(f"{'all':12} {found:3}/{asked:3}")
    assert found >= 0.9 * asked


@pytest.mark.parametrize(
    "pair", "deploy/deployment ran/runs policy/policies db/database k8s/kubernetes".split()
)
def test_the_forms_that_memory_is_asked_for_most_find_each_other(pair: str) -> None:
    assert together(pair)


def test_unrelated_words_stay_apart() -> None:
    assert together(UNRELATED) == []


def test_an_exact_word_comes_before_words_that_only_share_its_root(index: Any) -> None:
    filler = [("x", "x", f"filler {at}") for at in range(8)]
    index.fill([("a", "x", "international offices"), ("b", "x", "internal offices"), *filler])
    assert index.ask("international")[0] == 1
    assert index.ask("internal")[0] == 2


def test_stop_words_are_written_folded() -> None:
    assert {word for word in STOP_WORDS if fold(word) != word} == set()
    assert STOP_WORDS.isdisjoint("ai ci os eu us go kim may todo mes data key use run".split())
