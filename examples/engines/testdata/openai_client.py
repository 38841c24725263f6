"""The official openai client against a real engine behind smg: python openai_client.py BASE_URL MODEL. Prints ok, or what does not hold."""
import sys

import openai

base, model = sys.argv[1:]
client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0, timeout=120)
messages = [{"role": "user", "content": "hello"}]
plain = {"model": model, "temperature": 0, "max_tokens": 8}


def check(what, held):
    if not held:
        sys.exit("does not hold: " + what)


check("the model is listed", model in [m.id for m in client.models.list()])

chat = client.chat.completions.create(messages=messages, **plain)
text = chat.choices[0].message.content
check("a chat has text", text)
check("a chat has as many tokens as were asked for", chat.usage.completion_tokens == 8 and chat.choices[0].finish_reason == "length")

chunks = list(client.chat.completions.create(messages=messages, stream=True, stream_options={"include_usage": True}, **plain))
streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
check("a streamed chat has the text of the plain one", streamed == text)
check("the last chunk has the usage that was asked for", chunks[-1].usage.completion_tokens == 8)
check("a chunk says why it ended", "length" in [c.choices[0].finish_reason for c in chunks if c.choices])

completion = client.completions.create(prompt="hello", **plain)
check("a completion has text", completion.choices[0].text)
streamed = "".join(c.choices[0].text for c in client.completions.create(prompt="hello", stream=True, **plain) if c.choices)
check("a streamed completion has the text of the plain one", streamed == completion.choices[0].text)

for stream in False, True:
    try:
        client.chat.completions.create(messages=[{"role": "user", "content": "word " * 60_000}], stream=stream, **plain)
        check("a prompt that is too long is refused", False)
    except openai.BadRequestError as e:
        check("the engine's own sentence says what is too long", "context" in e.message)
print("ok")
