"""The official client against a gateway: python openai_client.py BASE_URL. Ends with 0 if every check holds."""
import asyncio
import json
import sys
import urllib.request

import openai

base = sys.argv[1]
client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0, timeout=60)
messages = [{"role": "user", "content": "hi"}]


def check(what, held):
    if not held:
        sys.exit("does not hold: " + what)


def post(path, body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


check("models are listed", [m.id for m in client.models.list()] == ["m1"])

chat = client.chat.completions.create(model="m1", messages=messages, max_tokens=5)
check("a chat has content and usage", chat.choices[0].message.content and chat.usage.completion_tokens == 5)

text = ""
usage = None
for chunk in client.chat.completions.create(model="m1", messages=messages, stream=True, stream_options={"include_usage": True}):
    text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    usage = chunk.usage or usage
check("a streamed chat has content and usage", text and usage.completion_tokens > 0)

completion = client.completions.create(model="m1", prompt="hi", max_tokens=3)
check("a completion has text", completion.choices[0].text)
check("a streamed completion has text", "".join(c.choices[0].text for c in client.completions.create(model="m1", prompt="hi", stream=True)))

check("embeddings are vectors", len(client.embeddings.create(model="m1", input=["a", "b"]).data) == 2)

response = client.responses.create(model="m1", input="hi")
check("a response has text", response.output_text)
kinds = [event.type for event in client.responses.create(model="m1", input="hi", stream=True)]
check("a streamed response is completed", kinds[-1] == "response.completed")

check("generate has text", post("/generate", {"text": "hi"})["text"])
check("rerank has results", post("/rerank", {"model": "m1", "query": "q", "documents": ["a", "b"]})["object"] == "rerank")
check("messages have content", post("/v1/messages", {"model": "m1", "max_tokens": 4, "messages": messages})["content"])

try:
    client.chat.completions.create(model="nope", messages=messages)
    check("an unknown model is refused", False)
except openai.NotFoundError as e:
    check("an unknown model is a typed error with its code", e.code == "model_not_found")
try:
    client.chat.completions.create(model="m1", messages=messages, temperature=9)
    check("a bad parameter is refused", False)
except openai.BadRequestError as e:
    check("a bad parameter is named", e.param == "temperature")


async def many():
    both = openai.AsyncOpenAI(base_url=base + "/v1", api_key="none", max_retries=0, timeout=60)

    async def one():
        stream = await both.chat.completions.create(model="m1", messages=messages, stream=True)
        return "".join([(c.choices[0].delta.content or "") async for c in stream if c.choices])

    texts = await asyncio.gather(*[one() for _ in range(50)])
    await both.close()
    return texts


check("50 streams at once are all whole", all(t == text for t in asyncio.run(many())))
print("ok")
