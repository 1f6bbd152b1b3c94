"""Letters of the languages that tests write random sentences in."""

ALPHABETS = {
    "en": "abcdefghijklmnopqrstuvwxyz",
    "es": "abcdefghijklmnñopqrstuvwxyzáéíóúü",
    "fr": "abcdefghijklmnopqrstuvwxyzàâçéèêëîïôùûü",
    "de": "abcdefghijklmnopqrstuvwxyzäöüß",
    "it": "abcdefghijklmnopqrstuvwxyzàèéìòù",
    "pt": "abcdefghijklmnopqrstuvwxyzãáâàçéêíõóôú",
    "pl": "aąbcćdeęfghijklłmnńoóprsśtuwyzźż",
    "tr": "abcçdefgğhıijklmnoöprsştuüvyz",
    "ru": "абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
    "nl": "abcdefghijklmnopqrstuvwxyzéëï",
    "cs": "aábcčdďeéěfghiíjklmnňoópqrřsštťuúůvwxyýzž",
    "ar": "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأإئؤةى",
    "hu": "aábcdeéfghiíjklmnoóöőpqrstuúüűvwxyz",
    "ko": "가나다라마바사아자차카타파하한국말",
    "hi": "अआइईउऊएऐओऔकखगघचछजझटठडढतथदधनपफबभमयरलवशसहािीुूेैोौं",
    "amh": "ሀለሐመሠረሰሸቀበተቸኀነኘአከኸወዐዘዠየደጀገጠጨጰጸፀፈፐሁሂሃሄህሆቋጓኳዓኣ",
}
