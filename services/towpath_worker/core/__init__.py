"""Pure parts of the worker: results and failures in the form in which they travel.

function returns  -> encode_result -> EncodedResult   inline up to INLINE_RESULT_BYTES, else stored as a blob
function raises   -> failure_of    -> ToolFailure     code, message, retryable, external
result refused    -> failure_of    -> ToolFailure     not JSON, too large, too deep
"""
