"""What pydantic's kinds of problems mean to whoever writes a file, in words that hold for every file of ours."""

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "missing": "missing",
    "extra_forbidden": "nothing of that name may stand here",
    "value_error": "{error}",
    "string_pattern_mismatch": "must be lower-case letters, digits and underscores, a letter first",
    "string_type": "must be text in quotes",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "too_short": "must not be empty",
    "list_type": "must be a list",
    "dict_type": "must be a table of its own, in square brackets",
    "model_type": "must be a table of its own, in square brackets",
    "literal_error": "must be {expected}",
}
"""By the type of the problem; each sentence is formatted with the problem's context."""
