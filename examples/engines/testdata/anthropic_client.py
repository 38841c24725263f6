"""The official anthropic client against a real engine behind smg: python anthropic_client.py BASE_URL MODEL. Prints ok, or what does not hold."""
import sys

import anthropic

base, model = sys.argv[1:]
client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0, timeout=120)
plain = {"model": model, "max_tokens": 8, "extra_body": {"temperature": 0}, "messages": [{"role": "user", "content": "hello"}]}


def check(what, held):
    if not held:
        sys.exit("does not hold: " + what)


message = client.messages.create(**plain)
check("a message has text", message.content[0].text)
check("a message has as many tokens as were asked for", message.usage.output_tokens == 8 and message.stop_reason == "max_tokens")

with client.messages.stream(**plain) as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_message()
check("a stream begins and ends with its events", kinds[0] == "message_start" and kinds[-1] == "message_stop")
check("a streamed message has the text of the plain one", final.content[0].text == message.content[0].text)
check("a streamed message says why it ended", final.stop_reason == "max_tokens")

for streamed in False, True:
    try:
        client.messages.create(**plain | {"messages": [{"role": "user", "content": "word " * 60_000}], "stream": streamed})
        check("a prompt that is too long is refused", False)
    except anthropic.BadRequestError as e:
        check("the engine's own sentence says what is too long", "context" in str(e))
print("ok")
