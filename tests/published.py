"""Small tokenizers that are put together as published ones are, for tests of what becomes of text.

Vocabularies are made up; normalizers, pre-tokenizers and decoders are those of the families. Nothing else lives here.
"""

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.families import make_tokenizer

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
IM_END = "<|im_end|>"
CHAT_TEMPLATE = "{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"

_WORDS = ("the", "quick", "fox", "yes", "User", "stop")
_MARKS = ("<unk>", "<s>", "</s>")


def llama2(*added: AddedToken) -> PreTrainedTokenizerFast:
    """As those of Llama 2, Mistral and Phi-3: a blank before each text, of which the decoder strips one."""
    pieces = _pieces()
    pieces.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    pieces.decoder = _decoder(decoders.Strip(" ", 1, 0))
    return _made(pieces, added)


def metaspace_first(*added: AddedToken) -> PreTrainedTokenizerFast:
    """As transformers makes those of Llama 2 today: a blank before the first word alone."""
    pieces = _pieces()
    pieces.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)
    pieces.decoder = _decoder(decoders.Strip(" ", 1, 0))
    return _made(pieces, added)


def gemma(*added: AddedToken) -> PreTrainedTokenizerFast:
    """As those of Gemma: no blank is put before a text, and none is stripped."""
    pieces = _pieces()
    pieces.normalizer = normalizers.Replace(" ", SPACE)
    pieces.decoder = _decoder()
    return _made(pieces, added)


def byte_level(*added: AddedToken) -> PreTrainedTokenizerFast:
    """As those of Llama 3, Qwen and GPT-2."""
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(list(added))
    return tokenizer


STRIPPING = (llama2, metaspace_first)
"""Those whose decoder strips a blank at the start of a text."""

PUBLISHED = (*STRIPPING, gemma, byte_level)


def _pieces() -> Tokenizer:
    characters = [SPACE, *map(chr, range(33, 127))]
    words = [SPACE + word for word in _WORDS] + list(_WORDS)
    grown = [word[:end] for word in words for end in range(2, len(word) + 1)]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = dict.fromkeys((*_MARKS, *bytes_, *characters, *grown))
    merges = dict.fromkeys((piece[:-1], piece[-1]) for piece in grown)
    numbered = {piece: number for number, piece in enumerate(vocabulary)}
    return Tokenizer(models.BPE(numbered, list(merges), byte_fallback=True, fuse_unk=True, unk_token="<unk>"))


def _decoder(*last: decoders.Strip) -> decoders.Decoder:
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *last]
    return decoders.Sequence(steps)


def _made(pieces: Tokenizer, added: tuple[AddedToken, ...]) -> PreTrainedTokenizerFast:
    pieces.add_special_tokens(list(_MARKS))
    pieces.add_tokens(list(added))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
