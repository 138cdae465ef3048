#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/: a byte-level BPE vocabulary in Hugging Face's files, and 1,000 strings with the
ids that the package `tokenizers` computes.

    tokenizer.py <text file>     a text to train on, besides the lines below

Needs the package tokenizers. Each line of strings.txt has a string as JSON, a tab, and its ids.
"""
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).parent / "tokenizer"
MULTILINGUAL = """
Die Würde des Menschen ist unantastbar. Sie zu achten und zu schützen ist Verpflichtung aller staatlichen Gewalt.
Tous les êtres humains naissent libres et égaux en dignité et en droits. Où êtes-vous allés cet été?
Todos los seres humanos nacen libres e iguales en dignidad y derechos; ¿cómo estás, señor Muñoz?
Все люди рождаются свободными и равными в своём достоинстве и правах. Быстрая лиса прыгает через собаку.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.
人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。今天天气很好，我们去公园吧。
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।
يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. כל בני האדם נולדו בני חורין ושווים בערכם.
for (int i = 0; i < n; ++i) { sum += x[i] * y[i]; }  // dot product
def forward(self, x): return self.linear(x).relu()  # 3.14159, 2048, 1e-5
if (!file.is_open()) throw std::runtime_error("cannot open " + path);
😀 😂 🎉 👍🏽 👩‍💻 🇩🇪 ❤️ ★ → ∞ ≤ ≥ ≠ ± × ÷ √ ∑ ∫ π
"""


def train(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1400, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator([text, *[MULTILINGUAL] * 40], trainer)
    return tokenizer


def strings(text):
    draw = random.Random(5)
    lines = [line for line in (text + MULTILINGUAL).splitlines() if line]
    result = ["", " ", "  ", "\n", "\t\t", " \n", "\n \n", "a", " a", "a ", "  a", "a  ", "   a   b", "'s", "'S", "it's",
              "we'll've", "'re''ve", "don't", "I'm'd", "'", "''", " '", "can''t", "rock'n'roll", "’s it’s",
              "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", " <|endoftext|> ", "<|endoftext",
              "<|<|endoftext|>|>", "0", "007", "3.14", "1,000,000", "½ ² Ⅷ ٣ ৪ 五", "x1y2", "1st 2nd", "\r\n", "a\r\nb",
              "\x00", "\x01\x02\x7f", "a\x00b", "\x1b[0m", "\u00a0", "a\u00a0b", "\u3000x", "\u2003\u2003y", "\u200b",
              "\u2028\u2029", "\u0085z", "\ufeff", "\ufffd", "\u00ad", "é", "e\u0301", "ﬁ", "İi", "ǅ", "ꙮ", "\U0001d552",
              "\U0010ffff", "👩‍👩‍👧‍👦", "🇺🇸🇯🇵", "👍🏿", "❤️‍🔥", " 😀", "😀😀😀", "_", "__init__", "a_b", "C++20", "$100", "50%",
              "#include <x>", "->*", "==!=", "//", "/* */", "\\n", "\"q\"", "`x`", "~", "@user", "a@b.c", "http://a.b/c?d=e"]
    alphabets = ["abc XYZ", "0123456789 .,", " \t\n\r", "'stremvld ", "äöüßéñçøå ", "абвгдё ", "漢字かなカナ한글 ", "अआइक्षि ",
                 "ابجدهوز ", "😀🎉👍🏽‍♂️ ", "{}[]()<>;:=+-*/&|!", "\u00a0\u2009\u3000x ", "\x00\x07\x1f\x80\x9f a", "∑∫√≠ π1"]
    while len(result) < 1000:
        kind = draw.randrange(4)
        if kind == 0:
            line = draw.choice(lines)
            at = draw.randrange(len(line))
            result.append(line[at:at + draw.randrange(1, 60)])
        elif kind == 1:
            alphabet = draw.choice(alphabets)
            result.append("".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 25))))
        elif kind == 2:
            alphabet = "".join(draw.sample(alphabets, 3))
            result.append("".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 30))))
        else:
            words = [draw.choice(draw.choice(lines).split() or ["x"]) for _ in range(draw.randrange(1, 6))]
            blanks = [" ", "  ", "     ", "\n", "\n\n  ", "\t", " " * draw.randrange(1, 30)]
            result.append("".join(word + draw.choice(blanks) for word in words))
    return result


def main(path):
    text = pathlib.Path(path).read_text()
    tokenizer = train(text)
    FOLDER.mkdir(exist_ok=True)
    tokenizer.model.save(str(FOLDER))
    tokenizer.save(str(FOLDER / "tokenizer.json"), pretty=False)
    with open(FOLDER / "strings.txt", "w") as out:
        for each in strings(text):
            ids = tokenizer.encode(each, add_special_tokens=False).ids
            out.write(json.dumps(each) + "\t" + " ".join(map(str, ids)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
