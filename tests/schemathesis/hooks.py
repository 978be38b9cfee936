"""What schemathesis cannot send as it means it, or cannot know. What was valid stays valid, what was not does not become it."""

import re

import schemathesis

# In a path `:` is written as %3A already.
ESCAPED = re.compile(r"%(?!3[Aa])[0-9A-Fa-f]{2}")
CALLERS, OTHER = {"did:example:alice", "did:example:operator"}, "did:example:bob"
KEY = re.compile(r"[!-~]{1,255}")


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """A DID may hold `%` and two digits. In a path they would be taken for an encoded character, and so for another DID."""
    did = (path_parameters or {}).get("did")
    return {**path_parameters, "did": ESCAPED.sub("x", did)} if isinstance(did, str) else path_parameters


@schemathesis.hook
def map_case(context, case):
    """A key in the header and another one in the body contradict each other, and nobody sends to himself: no schema can say so."""
    headers, body = case.headers or {}, case.body
    inside = body.get("idempotencyKey") if isinstance(body, dict) else None
    outside = headers.get("Idempotency-Key")
    if all(isinstance(key, str) and KEY.fullmatch(key) for key in (inside, outside)):
        headers["Idempotency-Key"] = inside
    if isinstance(body, dict) and str(body.get("recipientDid")) in CALLERS:
        body["recipientDid"] = OTHER
    return case
