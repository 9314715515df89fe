"""The pure parts of the gateway: keys, headers, event frames, and the answer of `POST /run`.

request -> headers -> api_keys.split_key -> api_keys.key_refusal: known, not revoked, not expired?
|  no  -> `unauthenticated`
|  yes -> Principal: project, scopes, roles -> the route's scope -> one service behind
"""
