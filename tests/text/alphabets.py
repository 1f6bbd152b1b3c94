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
    "zh": "我你他她们今天气很好有人去公园中国北京学生老师吃饭喝水大小多少",
    "ja": "私は今日学校に行きますカタカナひらがな東京日本人水山川がぎぐげごぱぴぷぺぽー",
    "hi": "अआइईउऊएऐओऔकखगघचछजझटठडढतथदधनपफबभमयरलवशसहािीुूेैोौं",
    "amh": "ሀለሐመሠረሰሸቀበተቸኀነኘአከኸወዐዘዠየደጀገጠጨጰጸፀፈፐሁሂሃሄህሆቋጓኳዓኣ",
}
