"""The checks of the official openai client. Its own retries are off, so that what shows is the gateway's behaviour."""
import asyncio

import openai

from checks import MESSAGES, check, equal, hold, raised, reply, sent, serve

CHAT = {"model": "m1", "messages": MESSAGES}


def client(base, kind=openai.OpenAI, timeout=60):
    return kind(base_url=base + "/v1", api_key="none", max_retries=0, timeout=timeout)


def text_of(chunks):
    """The text of a streamed chat, as far as it comes; whatever the stream raises is raised."""
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


# What works


@check
def models(base):
    with client(base) as c:
        equal("the models", [m.id for m in c.models.list()], ["m1"])
        equal("a model's id", c.models.retrieve("m1").id, "m1")
        equal("the code of an unknown model", raised(openai.NotFoundError, lambda: c.models.retrieve("nope")).code, "model_not_found")


@check
def chat(base):
    with client(base) as c:
        answer = c.chat.completions.create(**CHAT, max_tokens=5)
        equal("the text", answer.choices[0].message.content, reply(5))
        equal("the finish reason", answer.choices[0].finish_reason, "length")
        equal("the tokens made", answer.usage.completion_tokens, 5)


@check
def chat_streamed(base):
    with client(base) as c:
        chunks = list(c.chat.completions.create(**CHAT, max_tokens=7, stream=True, stream_options={"include_usage": True}))
        equal("the text", text_of(chunks), reply(7))
        equal("the ids", len({chunk.id for chunk in chunks}), 1)
        equal("the tokens made", chunks[-1].usage.completion_tokens, 7)
        with c.chat.completions.stream(**CHAT, max_tokens=4) as stream:
            equal("the helper's text", "".join(e.delta for e in stream if e.type == "content.delta"), reply(4))


@check
def transcription(base):
    """Short and long files, plain and streamed."""
    with client(base) as c:
        for size in (100, 60_000):
            audio = ("a.wav", b"x" * size, "audio/wav")
            text = c.audio.transcriptions.create(model="m1", file=audio, language="en").text
            hold("the text is the engine's", text.startswith(reply(16)))
            chunks = c.audio.transcriptions.create(model="m1", file=audio, stream=True)
            hold("the streamed text is the same", "".join(chunk.choices[0]["delta"]["content"] for chunk in chunks) == text)
        unknown = raised(openai.NotFoundError, lambda: c.audio.transcriptions.create(model="nope", file=audio))
        equal("the code of an unknown model", unknown.code, "model_not_found")


@check
def completion(base):
    with client(base) as c:
        answer = c.completions.create(model="m1", prompt=["hi", "there"], max_tokens=3)
        equal("the texts", [choice.text for choice in answer.choices], [reply(3)] * 2)
        chunks = c.completions.create(model="m1", prompt="hi", max_tokens=6, stream=True)
        equal("the streamed text", "".join(chunk.choices[0].text for chunk in chunks), reply(6))


@check
def embeddings(base):
    with client(base) as c:
        vectors = [d.embedding for d in c.embeddings.create(model="m1", input=["a", "b", "a"]).data]
        hold("a text has one vector", vectors[0] == vectors[2] != vectors[1])
        equal("the dimensions", len(c.embeddings.create(model="m1", input="a", dimensions=3, encoding_format="float").data[0].embedding), 3)


@check
def responses(base):
    with client(base) as c:
        equal("the text", c.responses.create(model="m1", input="hi", max_output_tokens=4).output_text, reply(4))
        events = list(c.responses.create(model="m1", input="hi", max_output_tokens=6, stream=True))
        equal("the streamed text", "".join(e.delta for e in events if e.type == "response.output_text.delta"), reply(6))
        equal("the last event", events[-1].type, "response.completed")
        equal("the numbers of the events", [e.sequence_number for e in events], list(range(len(events))))


@check
async def asynchronous(base):
    async with client(base, openai.AsyncOpenAI) as c:
        answer = await c.chat.completions.create(**CHAT, max_tokens=5)
        equal("the text", answer.choices[0].message.content, reply(5))
        chunks = [chunk async for chunk in await c.chat.completions.create(**CHAT, max_tokens=7, stream=True)]
        equal("the streamed text", text_of(chunks), reply(7))


@check
async def many_streams(base, streams):
    """Each stream asks for a number of tokens of its own, so that an event of another one would show."""

    async def one(tokens):
        stream = await c.chat.completions.create(**CHAT, max_tokens=tokens, stream=True)
        chunks = [chunk async for chunk in stream]
        equal("the text", text_of(chunks), reply(tokens))
        equal("the last finish reason", chunks[-1].choices[0].finish_reason, "length")
        ids = {chunk.id for chunk in chunks}
        equal("the ids in a stream", len(ids), 1)
        return ids.pop()

    async with client(base, openai.AsyncOpenAI) as c:
        ids = await asyncio.gather(*[one(10 + k) for k in range(streams)])
    equal("the ids of all streams", len(set(ids)), streams)


@check
def request_id(base):
    with client(base) as c:
        hold("an id is made", c.chat.completions.create(**CHAT, max_tokens=1)._request_id.startswith("chatcmpl-"))
        mine = {"X-Request-ID": "mine-1"}
        equal("the id", c.chat.completions.create(**CHAT, max_tokens=1, extra_headers=mine)._request_id, "mine-1")
        refused = raised(openai.NotFoundError, lambda: c.chat.completions.create(model="nope", messages=MESSAGES, extra_headers=mine))
        equal("the id of an error", refused.request_id, "mine-1")


@check
def worker_named(base):
    with client(base) as c:
        answers = [c.chat.completions.with_raw_response.create(**CHAT, max_tokens=1) for _ in range(3)]
        return [a.headers["x-smg-routed-worker-id"] for a in answers]


@check
def relayed_verbatim(base):
    """Fields that the gateway has never heard of, tools and a response format. Returns the body that was sent."""
    with client(base) as c:
        answer = c.chat.completions.with_raw_response.create(
            **CHAT,
            max_tokens=1,
            tools=[{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}],
            tool_choice="auto",
            response_format={"type": "json_object"},
            extra_body={"unheard_of": {"deep": [1, 2.50, 1e-7, "ü \u2028", None]}, "zzz": 12345678901234567890},
        )
        return sent(answer.http_response)


# What the gateway refuses


@check
def unknown_model(base):
    with client(base) as c:
        e = raised(openai.NotFoundError, lambda: c.chat.completions.create(model="nope", messages=MESSAGES))
        equal("the code", e.code, "model_not_found")
        equal("the type", e.type, "invalid_request_error")
        hold("the message names the model", "nope" in e.message)


@check
def bad_parameter(base):
    with client(base) as c:
        e = raised(openai.BadRequestError, lambda: c.chat.completions.create(**CHAT, temperature=9))
        equal("the field", e.param, "temperature")
        hold("there is a code", e.code)
        e = raised(openai.BadRequestError, lambda: c.chat.completions.create(model="m1", messages=[], stream=True))
        equal("the field of a stream", e.param, "messages")


@check
def not_json(base):
    with client(base) as c:
        call = c.chat.completions.create
        e = raised(openai.BadRequestError, lambda: call(**CHAT, extra_headers={"Content-Type": "text/plain"}))
        equal("the code of a foreign type", e.code, "json_parse_error")
        e = raised(openai.APIStatusError, lambda: call(**CHAT, extra_headers={"Content-Encoding": "gzip"}))
        equal("the status of a compressed body", e.status_code, 415)
        equal("the code of a compressed body", e.code, "unsupported_content_encoding")


@check
def too_large(base, size):
    with client(base) as c:
        long = [{"role": "user", "content": "x" * size}]
        e = raised(openai.APIStatusError, lambda: c.chat.completions.create(model="m1", messages=long))
        equal("the status", e.status_code, 413)
        hold("there is a code", e.code)


# What the engines refuse, and how they fail


@check
def engine_refuses(base):
    with client(base) as c:
        e = raised(openai.BadRequestError, lambda: c.chat.completions.create(**CHAT))
        equal("the message", e.body["message"], "The context is too long")
        equal("the field", e.param, "messages")


@check
def rate_limited(base):
    with client(base) as c:
        e = raised(openai.RateLimitError, lambda: c.chat.completions.create(**CHAT))
        equal("the message", e.body["message"], "Slow down")
        equal("Retry-After", e.response.headers["retry-after"], "7")
        equal("a header of the engine's own", e.response.headers["x-ratelimit-remaining-requests"], "0")
        hold("the worker is named", e.response.headers["x-smg-routed-worker-id"].startswith("http://"))


@check
def engines_fail(base, status):
    with client(base) as c:
        for stream in (False, True):
            e = raised(openai.InternalServerError, lambda: c.chat.completions.create(**CHAT, stream=stream))
            equal("the status", e.status_code, status)
            equal("the message", e.body["message"], "Out of memory")


@check
def engines_hang_up(base):
    with client(base) as c:
        e = raised(openai.InternalServerError, lambda: c.chat.completions.create(**CHAT))
        equal("the status", e.status_code, 502)
        equal("the code", e.code, "call_upstream_request_error")
        equal("the type", e.type, "server_error")


# Streams that do not end as they should


@check
def cut_between_events(base, events):
    """The text that came is there, and the client learns that it is not all."""
    with client(base) as c:
        chunks = []
        e = raised(openai.APIError, lambda: chunks.extend(c.chat.completions.create(**CHAT, stream=True)))
        equal("the code", e.code, "stream_error")
        equal("the type", e.type, "server_error")
    equal("the text", text_of(chunks), reply(events - 1))


@check
def cut_within_event(base):
    with client(base) as c:
        chunks = []
        raised(openai.APIConnectionError, lambda: chunks.extend(c.chat.completions.create(**CHAT, stream=True)))
    hold("the text that came is there", text_of(chunks).startswith("the quick"))


@check
def cut_response(base):
    with client(base) as c:
        events = []
        e = raised(openai.APIError, lambda: events.extend(c.responses.create(model="m1", input="hi", stream=True)))
        equal("the code", e.code, "stream_error")
    hold("it is not completed", events and all(e.type != "response.completed" for e in events))


@check
def error_event(base):
    """An error that the engine itself puts into its stream."""
    with client(base) as c:
        chunks = []
        e = raised(openai.APIError, lambda: chunks.extend(c.chat.completions.create(**CHAT, stream=True)))
        equal("the message", e.message, "Out of memory")
    equal("the text that came", text_of(chunks), "the")


# Clients that do not wait for the end


@check
def leaves(base):
    with client(base) as c, c.chat.completions.create(**CHAT, stream=True) as stream:
        hold("there is text", text_of([next(stream) for _ in range(3)]))


@check
async def leaves_cancelled(base):
    started = asyncio.Event()

    async def read():
        async for chunk in await c.chat.completions.create(**CHAT, stream=True):
            if chunk.choices[0].delta.content:
                started.set()

    async with client(base, openai.AsyncOpenAI) as c:
        task = asyncio.create_task(read())
        await asyncio.wait_for(started.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    hold("the task was cancelled", task.cancelled())


@check
def times_out(base):
    with client(base, timeout=1) as c:
        raised(openai.APITimeoutError, lambda: c.chat.completions.create(**CHAT))


@check
def times_out_in_stream(base):
    with client(base, timeout=2) as c:
        chunks = []
        raised(openai.APITimeoutError, lambda: chunks.extend(c.chat.completions.create(**CHAT, stream=True)))
    equal("the text that came", text_of(chunks), "the")


if __name__ == "__main__":
    serve()
