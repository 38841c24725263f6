"""What the checks of both clients share, and the loop in which a test calls them.

Each line of standard input names a check and the gateway, with what else the check takes:
    {"check": "chat", "base": "http://127.0.0.1:30000"}
Each line of standard output says how it went: {"failure": null, or what did not hold, "seen": what the check returns}.
Without a name, "seen" is the list of all checks. So a check is run by hand with
    echo '{"check": "chat", "base": "http://127.0.0.1:30000"}' | python openai_client.py
"""
import asyncio
import base64
import inspect
import json
import sys
import traceback

# What the engines' replies are made of, word by word.
WORDS = ("the quick engine reads a long prompt and then answers with many short words that mean nothing at all "
         "but cost just as much as those of a large model would on a busy day in spring").split()

MESSAGES = [{"role": "user", "content": "hi"}]

registered = {}


def check(function):
    """Makes a function of (base, **more), plain or async, a check under its own name."""
    registered[function.__name__] = function
    return function


def hold(what, condition):
    """The one assertion: a sentence that is to be true."""
    if not condition:
        raise AssertionError("does not hold: " + what)


def equal(what, got, want):
    hold(f"{what}: {got!r} is {want!r}", got == want)


def reply(tokens):
    """The text of a reply of that many tokens."""
    return " ".join(WORDS[k % len(WORDS)] for k in range(tokens))


def raised(kind, call):
    """The exception of exactly that type which call raises; any other goes its way and fails the check."""
    try:
        call()
    except kind as e:
        equal("the type of the exception", type(e).__name__, kind.__name__)
        return e
    raise AssertionError(f"{kind.__name__} is not raised")


def sent(response):
    """The body of the request that was answered, byte for byte."""
    return base64.b64encode(response.request.content).decode()


def serve():
    """Runs the checks that standard input names, until it ends."""
    out, sys.stdout = sys.stdout, sys.stderr  # whatever else prints must not look like an answer
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(answer(order.pop("check", ""), order)), file=out, flush=True)


def answer(name, arguments):
    if not name:
        return {"failure": None, "seen": sorted(registered)}
    try:
        seen = registered[name](**arguments)
        if inspect.iscoroutine(seen):
            seen = asyncio.run(seen)
        return {"failure": None, "seen": seen}
    except Exception:
        return {"failure": traceback.format_exc(), "seen": None}
