#!/usr/bin/env python3
"""Writes tests/data/gguf/pretokenizers.json and sentence_pieces.json: how other people's tokenizers cut the texts of
tests/data/tokenizer/smollm2.json. Needs the PyPI packages tokenizers and sentencepiece. Run from the repository's root."""

import json
import os
import tempfile

import sentencepiece
from tokenizers import Regex, pre_tokenizers

TEXTS = "tests/data/tokenizer/smollm2.json"
TEXT_CHARACTERS_MAX = 200
# What the models' own tokenizer.json say, where that is not ByteLevel's built-in expression.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# The cased letters that DeepSeek LLM's pre-tokenizer lists.
CASED = (
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}"
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}"
    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}"
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}"
    r"\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}"
    r"\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}"
    r"\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}"
    r"\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}"
    r"\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}"
    r"\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}"
    r"\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}"
    r"\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}"
    r"\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}"
)
LLM = [
    r"[\r\n]",
    r"\s?[" + CASED + "]+",
    "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    "[一-龥ࠀ-一가-\ud7ff]+",
]
CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+"]


def splits(patterns, *more):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns] + list(more))


KINDS = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    "smollm": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    ),
    "llama-bpe": splits([LLAMA3]),
    "qwen2": splits([QWEN2]),
    "deepseek-llm": splits(LLM, pre_tokenizers.Digits(individual_digits=False)),
    "deepseek-coder": splits(CODER, pre_tokenizers.Digits(individual_digits=True)),
}


def piece_lengths(kind, text):
    """Bytes of each piece in turn."""
    ends = [end for _, (_, end) in kind.pre_tokenize_str(text)]
    starts = [start for _, (start, _) in kind.pre_tokenize_str(text)]
    return [len(text[start:end].encode()) for start, end in zip(starts, ends)]


def write_pretokenizers(texts):
    cases = {name: [piece_lengths(kind, text) for text in texts] for name, kind in KINDS.items()}
    with open("tests/data/gguf/pretokenizers.json", "w", encoding="utf-8") as file:
        json.dump({"texts": texts, "kinds": cases}, file, ensure_ascii=False, separators=(",", ":"))


def train(corpus, folder, **options):
    path = os.path.join(folder, "corpus.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(corpus)
    sentencepiece.SentencePieceTrainer.train(
        input=path,
        model_prefix=os.path.join(folder, "small"),
        model_type="bpe",
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "small.model"))


def token_type(model, index):
    """As numbered in tokenizer.ggml.token_type."""
    if model.IsUnknown(index):
        return 2
    if model.IsControl(index):
        return 3
    return 6 if model.IsByte(index) else 1


def vocabulary(model, texts):
    ids = range(model.GetPieceSize())
    return {
        "tokens": [model.IdToPiece(i) for i in ids],
        "scores": [model.GetScore(i) for i in ids],
        "types": [token_type(model, i) for i in ids],
        "ids": [model.EncodeAsIds(text) for text in texts],
    }


def write_sentence_pieces(texts):
    corpus = open("README.md", encoding="utf-8").read() + "".join(text + "\n" for text in texts)
    models = {}
    for name, options in {
        "prefix": {"vocab_size": 700, "byte_fallback": True},
        "no_prefix": {"vocab_size": 700, "byte_fallback": True, "add_dummy_prefix": False},
        "no_bytes": {"vocab_size": 700, "character_coverage": 0.98},
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            models[name] = vocabulary(train(corpus, folder, **options), texts)
    with open("tests/data/gguf/sentence_pieces.json", "w", encoding="utf-8") as file:
        json.dump({"texts": texts, "models": models}, file, ensure_ascii=False, separators=(",", ":"))


def main():
    with open(TEXTS, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    texts = [case["text"] for case in cases if 0 < len(case["text"]) <= TEXT_CHARACTERS_MAX]
    write_pretokenizers(texts)
    # Sentence pieces cannot hold these two characters: one ends a string, the other is their blank.
    write_sentence_pieces([text for text in texts if "\0" not in text and "\u2581" not in text])


if __name__ == "__main__":
    main()
