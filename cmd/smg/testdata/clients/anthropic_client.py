"""The checks of the official anthropic client. Its own retries are off, so that what shows is the gateway's behaviour."""
import asyncio

import anthropic
import httpx2

from checks import MESSAGES, check, equal, hold, raised, reply, sent, serve

ASK = {"model": "m1", "messages": MESSAGES}
LONG = {**ASK, "max_tokens": 4000}


def client(base, kind=anthropic.Anthropic, timeout=60):
    return kind(base_url=base, api_key="none", max_retries=0, timeout=timeout)


def text_of(events):
    """The text of a stream's events, as far as they came."""
    return "".join(e.delta.text for e in events if e.type == "content_block_delta")


# What works


@check
def message(base):
    with client(base) as c:
        answer = c.messages.create(**ASK, max_tokens=5, system="Be brief.")
        equal("the text", answer.content[0].text, reply(5))
        equal("the stop reason", answer.stop_reason, "max_tokens")
        equal("the tokens made", answer.usage.output_tokens, 5)


@check
def message_streamed(base):
    """Every event, by its type."""
    with client(base) as c:
        events = list(c.messages.create(**ASK, max_tokens=7, stream=True))
    deltas = ["content_block_delta"] * 7
    equal("the events", [e.type for e in events],
          ["message_start", "content_block_start", *deltas, "content_block_stop", "message_delta", "message_stop"])
    equal("the text", text_of(events), reply(7))
    equal("the stop reason", events[-2].delta.stop_reason, "max_tokens")


@check
def stream_helper(base):
    with client(base) as c:
        with c.messages.stream(**ASK, max_tokens=6) as stream:
            equal("the text", "".join(stream.text_stream), reply(6))
            final = stream.get_final_message()
        equal("the final text", final.content[0].text, reply(6))
        equal("the final stop reason", final.stop_reason, "max_tokens")
        equal("the tokens made", final.usage.output_tokens, 6)


@check
def count_tokens(base):
    """A token is four characters to these engines; what is counted is not answered."""
    with client(base) as c:
        few, many = ([{"role": "user", "content": "x" * n}] for n in (8, 400))
        equal("the tokens", c.messages.count_tokens(model="m1", messages=few).input_tokens, 2)
        equal("the tokens with a system prompt", c.messages.count_tokens(model="m1", messages=many, system="y" * 40).input_tokens, 110)
        unknown = raised(anthropic.NotFoundError, lambda: c.messages.count_tokens(model="nope", messages=few))
        equal("the type of the error", unknown.body["error"]["type"], "not_found_error")


@check
async def asynchronous(base):
    async with client(base, anthropic.AsyncAnthropic) as c:
        answer = await c.messages.create(**ASK, max_tokens=5)
        equal("the text", answer.content[0].text, reply(5))
        async with c.messages.stream(**ASK, max_tokens=7) as stream:
            equal("the streamed text", "".join([text async for text in stream.text_stream]), reply(7))
            equal("the final text", await stream.get_final_text(), reply(7))


@check
async def many_streams(base, streams):
    """Each stream asks for a number of tokens of its own, so that an event of another one would show."""

    async def one(tokens):
        async with c.messages.stream(**ASK, max_tokens=tokens) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_message()
        equal("the text", text_of(events), reply(tokens))
        equal("the final text", final.content[0].text, reply(tokens))
        equal("the stop reason", final.stop_reason, "max_tokens")
        return final.id

    async with client(base, anthropic.AsyncAnthropic) as c:
        ids = await asyncio.gather(*[one(10 + k) for k in range(streams)])
    equal("the ids of all streams", len(set(ids)), streams)


@check
def request_id(base):
    with client(base) as c:
        answer = c.messages.create(**ASK, max_tokens=1)
        hold("an id is made", (answer._request_id or "").startswith("msg_"))
        mine = {"X-Request-ID": "mine-1"}
        equal("the id", c.messages.create(**ASK, max_tokens=1, extra_headers=mine)._request_id, "mine-1")
        call = lambda: c.messages.create(model="nope", messages=MESSAGES, max_tokens=1, extra_headers=mine)
        refused = raised(anthropic.NotFoundError, call)
        equal("the id of an error", refused.request_id, "mine-1")
        equal("the id in an error's body", refused.body["request_id"], "mine-1")


@check
def worker_named(base):
    with client(base) as c:
        answers = [c.messages.with_raw_response.create(**ASK, max_tokens=1) for _ in range(3)]
        return [a.headers["x-smg-routed-worker-id"] for a in answers]


@check
def relayed_verbatim(base):
    """Fields that the gateway has never heard of, and tools. Returns the body that was sent."""
    with client(base) as c:
        answer = c.messages.with_raw_response.create(
            **ASK,
            max_tokens=1,
            tools=[{"name": "now", "description": "The time", "input_schema": {"type": "object", "properties": {}}}],
            thinking={"type": "disabled"},
            metadata={"user_id": "u1"},
            extra_headers={"anthropic-beta": "some-beta"},
            extra_body={"unheard_of": {"deep": [1, 2.50, 1e-7, "ü \u2028", None]}, "zzz": 12345678901234567890},
        )
        return sent(answer.http_response)


# What the gateway refuses


@check
def unknown_model(base):
    with client(base) as c:
        e = raised(anthropic.NotFoundError, lambda: c.messages.create(model="nope", messages=MESSAGES, max_tokens=1))
        equal("the type", e.type, "not_found_error")
        hold("the message names the model", "nope" in e.api_message)


@check
def bad_parameter(base):
    with client(base) as c:
        e = raised(anthropic.BadRequestError, lambda: c.messages.create(**ASK, max_tokens=0))
        equal("the type", e.type, "invalid_request_error")
        hold("the message names the field", "max_tokens" in e.api_message)
        e = raised(anthropic.BadRequestError, lambda: c.messages.create(model="m1", messages=[], max_tokens=1, stream=True))
        hold("the message of a stream names the field", "messages" in e.api_message)


@check
def not_json(base):
    with client(base) as c:
        call = c.messages.create
        e = raised(anthropic.BadRequestError, lambda: call(**ASK, max_tokens=1, extra_headers={"Content-Type": "text/plain"}))
        equal("the type for a foreign type", e.type, "invalid_request_error")
        e = raised(anthropic.APIStatusError, lambda: call(**ASK, max_tokens=1, extra_headers={"Content-Encoding": "gzip"}))
        equal("the status of a compressed body", e.status_code, 415)


@check
def too_large(base, size):
    with client(base) as c:
        long = [{"role": "user", "content": "x" * size}]
        e = raised(anthropic.RequestTooLargeError, lambda: c.messages.create(model="m1", messages=long, max_tokens=1))
        equal("the type", e.type, "request_too_large")


# What the engines refuse, and how they fail


@check
def engine_refuses(base):
    with client(base) as c:
        e = raised(anthropic.BadRequestError, lambda: c.messages.create(**LONG))
        equal("the message", e.api_message, "The context is too long")
        equal("the type", e.type, "invalid_request_error")


@check
def rate_limited(base):
    with client(base) as c:
        e = raised(anthropic.RateLimitError, lambda: c.messages.create(**LONG))
        equal("the type", e.type, "rate_limit_error")
        equal("the message", e.api_message, "Slow down")
        equal("Retry-After", e.response.headers["retry-after"], "7")
        equal("a header of the engine's own", e.response.headers["anthropic-ratelimit-requests-remaining"], "0")
        hold("the worker is named", e.response.headers["x-smg-routed-worker-id"].startswith("http://"))


@check
def engines_fail(base, status, kind, type):
    with client(base) as c:
        for stream in (False, True):
            e = raised(getattr(anthropic, kind), lambda: c.messages.create(**LONG, stream=stream))
            equal("the status", e.status_code, status)
            equal("the type", e.type, type)
            equal("the message", e.api_message, "Out of memory")


@check
def engines_hang_up(base):
    with client(base) as c:
        e = raised(anthropic.InternalServerError, lambda: c.messages.create(**LONG))
        equal("the status", e.status_code, 502)
        equal("the type", e.type, "api_error")
        equal("the code", e.response.headers["x-smg-error-code"], "call_upstream_request_error")


# Streams that do not end as they should


@check
def cut_between_events(base, events):
    """The text that came is there, and the client learns that it is not all."""
    with client(base) as c:
        seen = []
        e = raised(anthropic.APIStatusError, lambda: seen.extend(c.messages.create(**LONG, stream=True)))
        equal("the type", e.type, "api_error")
        equal("the status, which had gone out before", e.status_code, 200)
        equal("the text", text_of(seen), reply(events - 2))
        with c.messages.stream(**LONG) as stream:
            raised(anthropic.APIStatusError, stream.get_final_message)


@check
def cut_within_event(base):
    """The client lets the error of its HTTP library through."""
    with client(base) as c:
        events = []
        raised(httpx2.RemoteProtocolError, lambda: events.extend(c.messages.create(**LONG, stream=True)))
    hold("the text that came is there", text_of(events).startswith("the quick"))


@check
def error_event(base):
    """An error that the engine itself puts into its stream."""
    with client(base) as c:
        events = []
        e = raised(anthropic.APIStatusError, lambda: events.extend(c.messages.create(**LONG, stream=True)))
        equal("the type", e.type, "overloaded_error")
        equal("the message", e.api_message, "Out of memory")
    equal("the events that came", [e.type for e in events], ["content_block_start"])


# Clients that do not wait for the end


@check
def leaves(base):
    with client(base) as c, c.messages.stream(**LONG) as stream:
        hold("there is text", next(stream.text_stream))


@check
async def leaves_cancelled(base):
    started = asyncio.Event()

    async def read():
        async with c.messages.stream(**LONG) as stream:
            async for _ in stream.text_stream:
                started.set()

    async with client(base, anthropic.AsyncAnthropic) as c:
        task = asyncio.create_task(read())
        await asyncio.wait_for(started.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    hold("the task was cancelled", task.cancelled())


@check
def times_out(base):
    with client(base, timeout=1) as c:
        raised(anthropic.APITimeoutError, lambda: c.messages.create(**LONG))


@check
def times_out_in_stream(base):
    """The client lets the error of its HTTP library through."""
    with client(base, timeout=2) as c:
        events = []
        raised(httpx2.ReadTimeout, lambda: events.extend(c.messages.create(**LONG, stream=True)))
    equal("the text that came", text_of(events), "the")


if __name__ == "__main__":
    serve()
