"""Recorded provider responses of any dialect: exchanges to runs, runs to terminal events.

Exchanges of one file that continue each other (a later request carries an earlier call's result, repeats its whole
history, names its response, or retries a failed request) are one run; its event describes the last response, and the
earlier ones give tool calls and policy decisions. Everything else is a run of its own. A stop reason, even the best,
claims no completion.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from pydantic_core import from_json

from schemas.errors import ErrorCode, MessageError
from sources import anthropic, bedrock, cohere, gemini, openai_chat, openai_responses
from sources.base import (
    Adapter,
    Document,
    Imported,
    Node,
    Reading,
    digest,
    guarded,
    imported,
    json_text,
    terminal_event,
)
from sources.openai_responses import API_CLIENT
from sources.recordings import exchanges, instant, looks_recorded
from sources.turns import (
    PROVIDER_CALL,
    Dialect,
    Exchange,
    Record,
    Result,
    Turn,
    call,
    failed,
    first_event,
    joined,
    keys,
    split_url,
    value,
)

NAME = "provider"
# The first that speaks a body reads it: from the most telling shape to the most general.
DIALECTS: tuple[Dialect, ...] = (
    bedrock.DIALECT,
    openai_responses.DIALECT,
    gemini.DIALECT,
    anthropic.DIALECT,
    cohere.DIALECT,
    openai_chat.DIALECT,
)
VENDORS = {
    "api.openai.com": "openai",
    "openrouter.ai": "openrouter",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.deepseek.com": "deepseek",
    "api.perplexity.ai": "perplexity",
}
_MESSAGE_KEYS = ("messages", "input", "contents")
_URL_MARKS: tuple[tuple[str, Dialect], ...] = (
    ("bedrock-runtime", bedrock.DIALECT),
    ("/messages", anthropic.DIALECT),
    ("/complete", anthropic.DIALECT),
    ("enerateContent", gemini.DIALECT),
    ("/interactions", gemini.DIALECT),
    ("/v2/chat", cohere.DIALECT),
    ("/responses", openai_responses.DIALECT),
)


@dataclass(frozen=True)
class Step:
    """One exchange of a run, read."""

    exchange: Exchange
    turn: Turn
    dialect: Dialect
    at: str | None
    results: Sequence[Result]


@dataclass
class Run:
    """The steps of one run, in order."""

    steps: list[Step] = field(default_factory=list)


def recognises(_name: str, head: bytes) -> bool:
    """Tell whether the first bytes are a recording, or the start of a bare response of a known shape."""
    if looks_recorded(head):
        return True
    start = Node(_start(head))
    first = first_event(start)
    shell = keys(first) >= {"status", "response", "path"} or keys(first) >= {"status", "headers", "body"}
    return shell or any(dialect.speaks("", first) for dialect in DIALECTS)


def _start(head: bytes) -> Any:
    """Parse what the first bytes show of a JSON document, or of its first line; None if that is no JSON."""
    for text in (head, head.lstrip().split(b"\n", 1)[0]):
        try:
            return from_json(text, allow_partial=True)
        except ValueError:
            continue
    return None


@guarded
def read(document: Document) -> Reading:
    """Yield one terminal event per run of the document, and an error for each exchange that cannot be read."""
    runs, found = _Runs(), False
    for exchange in exchanges(document):
        found = True
        if isinstance(exchange, MessageError):
            yield exchange
            continue
        try:
            runs.add(_step(exchange))
        except MessageError as error:
            yield error
    if not found:
        raise MessageError(ErrorCode.UNSUPPORTED_TYPE, "the file records no call to a language model")
    for run in runs.all:
        try:
            yield _event(document, run)
        except MessageError as error:
            yield error


def _step(exchange: Exchange) -> Step:
    dialect = _dialect(exchange)
    body = exchange.body
    if body.value is None:
        turn = _without_body(dialect, exchange)
    else:
        turn = dialect.read_response(exchange.status, exchange.headers, body)
    # Both are coarse, and an answer ends no earlier than it began.
    at = max((moment for moment in (instant(exchange), turn.created) if moment), default=None)
    return Step(exchange, turn, dialect, at, list(dialect.results(exchange.request)))


def _without_body(dialect: Dialect, exchange: Exchange) -> Turn:
    """Read a response without JSON: an HTTP error, or nothing at all, which is no end."""
    if exchange.status is not None and exchange.status >= 400:
        return failed(dialect.name, exchange.status, exchange.headers, exchange.body)
    return Turn(dialect.name, "absent")


def _dialect(exchange: Exchange) -> Dialect:
    body = exchange.body
    spoken = next((dialect for dialect in DIALECTS if dialect.speaks(exchange.url, body)), None)
    if spoken:
        return spoken
    told_by_url = next((dialect for mark, dialect in _URL_MARKS if mark in exchange.url), openai_chat.DIALECT)
    if (exchange.status is not None and exchange.status >= 400) or (body.value is None and not exchange.text):
        return told_by_url
    if body.value is None:
        body.fail("the response body is no JSON", ErrorCode.BAD_JSON)
    if not exchange.url and "model" in keys(body) and keys(body) & set(_MESSAGE_KEYS):
        body.fail("this is a request; give the response that was recorded for it", ErrorCode.UNSUPPORTED_TYPE)
    return body.fail("this is no response of a provider that we know", ErrorCode.UNSUPPORTED_TYPE)


# --- exchanges to runs --------------------------------------------------------------------------------------------


class _Runs:
    """Puts each exchange to the run that it continues."""

    def __init__(self) -> None:
        self.all: list[Run] = []
        self._by_id: dict[str, Run] = {}
        self._by_history: dict[str, Run] = {}

    def add(self, step: Step) -> None:
        history = _history_digests(step)
        run = self._continued(step, history)
        if run is None:
            run = Run()
            self.all.append(run)
        run.steps.append(step)
        ids = [step.turn.response_id, *(made["call_id"] for made in step.turn.calls)]
        self._by_id |= {known: run for known in (*ids, *_approval_ids(step.turn)) if known}
        if history:
            self._by_history[history[-1]] = run

    def _continued(self, step: Step, history: Sequence[str]) -> Run | None:
        named = [result.call_id for result in step.results]
        named += [str(value(step.exchange.request, "previous_response_id")), _polled(step.exchange)]
        by_id = next((self._by_id[known] for known in reversed(named) if known in self._by_id), None)
        if by_id:
            return by_id
        longest = next((self._by_history[known] for known in reversed(history[:-1]) if known in self._by_history), None)
        if longest:
            return longest
        same = self._by_history.get(history[-1]) if history else None
        return same if same and same.steps[-1].turn.error else None


def _polled(exchange: Exchange) -> str:
    return split_url(exchange.url).path.rsplit("/", 1)[-1]


def _approval_ids(turn: Turn) -> list[str]:
    return [decision["operation_id"] for decision in turn.decisions if decision.get("approval")]


def _history_digests(step: Step) -> list[str]:
    """Return a running digest of the request's messages: the n-th covers the first n."""
    history = value(step.exchange.request, step.dialect.history)
    seen = hashlib.sha256()
    digests = []
    for message in history if isinstance(history, list) else ():
        seen.update(json_text(message).encode() + b"\n")
        digests.append(seen.hexdigest())
    return digests


# --- runs to events -----------------------------------------------------------------------------------------------


def _event(document: Document, run: Run) -> Imported:
    first, last = run.steps[0], run.steps[-1]
    content = digest(json_text([[step.exchange.request.value, step.exchange.body.value] for step in run.steps]))
    name = document.name.replace("\\", "/").rsplit("/", 1)[-1]
    model = next((step.turn.model for step in reversed(run.steps) if step.turn.model), None) or _asked_model(last)
    run_id = next((step.turn.response_id for step in run.steps if step.turn.response_id), None)
    record = terminal_event(
        document,
        source=NAME,
        identity=(name, first.exchange.place, content),
        run_id=run_id or content,
        agent_id=model or last.dialect.name,
        occurred_at=last.at,
        request={"prose": prose} if (prose := _request_prose(first)) else None,
        model=_model(last, model),
        policy_decisions=_decisions(run),
        tool_calls=[*_tool_calls(run), *_provider_calls(run)],
        fallbacks=[fallback for step in run.steps for fallback in step.turn.fallbacks],
        budget={"exhausted": list(last.turn.exhausted)} if last.turn.exhausted else None,
        extensions={
            "import.dialect": last.dialect.name,
            "import.place": last.exchange.place or "file",
            "import.exchanges": str(len(run.steps)),
        },
    )
    return imported(record)


def _model(step: Step, model: str | None) -> Record:
    turn = step.turn
    return {
        "provider": _vendor(step),
        "model": model,
        "stop_signal": turn.stop_signal,
        "stop_class": turn.stop_class,
        "refusal_category": turn.refusal_category,
        "input_tokens": turn.input_tokens,
        "output_tokens": turn.output_tokens,
        "prose": turn.prose,
    }


def _vendor(step: Step) -> str:
    host = split_url(step.exchange.url).hostname or ""
    if host in VENDORS or step.dialect is not openai_chat.DIALECT:
        return VENDORS.get(host, step.turn.provider)
    azure = host.endswith(".azure.com") or "prompt_filter_results" in keys(step.exchange.body)
    return "azure" if azure else host or step.turn.provider


def _asked_model(step: Step) -> str | None:
    asked = value(step.exchange.request, "model")
    if isinstance(asked, str):
        return asked
    named = re.search(r"/models?/([^/]+?)(:\w*[gG]enerateContent)?(/|$)", split_url(step.exchange.url).path)
    return unquote(named[1]) if named else None


def _request_prose(step: Step) -> str | None:
    """Return the last text that the first request gives to the model."""
    request = step.exchange.request
    history = value(request, step.dialect.history)
    if isinstance(history, str):
        return history
    last = history[-1] if isinstance(history, list) and history else None
    content = value(Node(last), "content") or value(Node(last), "parts")
    if isinstance(content, str):
        return content
    texts = [value(Node(part), "text") for part in content] if isinstance(content, list) else []
    return joined([text for text in texts if isinstance(text, str)])


def _decisions(run: Run) -> list[Record]:
    """Return every step's decisions, dated by the step, approvals as a later request answered them."""
    answers = {result.call_id: (result, step) for step in run.steps for result in step.results}
    decisions = []
    for index, step in enumerate(run.steps):
        for number, decision in enumerate(step.turn.decisions):
            asked = decision.get("approval")
            dated: Record = {"decision_id": f"{index}.{number}", "decided_at": step.at, **decision}
            if asked and decision["operation_id"] in answers:
                dated["approval"] = _approval(asked, *answers[decision["operation_id"]])
            decisions.append(dated)
    return decisions


def _approval(asked: Record, answer: Result, step: Step) -> Record:
    # The answer came with a request that the provider began to work on at the response's own creation time.
    state = {True: "granted", False: "denied", None: "unknown"}[answer.approved]
    return asked | {"state": state, "approver": API_CLIENT, "resolved_at": step.turn.created or step.at}


def _tool_calls(run: Run) -> Iterator[Record]:
    """Yield each tool call once, with the result that a later request gave; also those made before the recording."""
    answers = {result.call_id: result for step in run.steps for result in step.results if result.approved is None}
    asked = {made["call_id"] for step in run.steps for made in step.turn.calls}
    # The longest request repeats all the results of the others.
    longest = max((step.results for step in run.steps), key=len)
    unpaired = [result for result in longest if result.call_id not in asked and result.approved is None]
    for step in run.steps:
        for made in step.turn.calls:
            answer = answers.get(made["call_id"]) if made["call_id"] else _next_of(unpaired, made)
            yield made if "outcome" in made else made | _outcome(answer, open_end=step is run.steps[-1])
    for result in unpaired:
        yield _earlier(result)


def _next_of(results: list[Result], made: Record) -> Result | None:
    """Take the next result for this tool: some formats pair calls and results by name and order alone."""
    found = next((result for result in results if result.tool == made["tool"]), None)
    if found:
        results.remove(found)
    return found


def _outcome(answer: Result | None, *, open_end: bool) -> Record:
    if answer:
        return answer.fields
    # The event stands at the last response, before which the host cannot have run what that response asks for.
    return {"outcome": "not_executed" if open_end else "unknown"}


def _earlier(result: Result) -> Record:
    return call(result.call_id or None, result.tool) | result.fields


def _provider_calls(run: Run) -> Iterator[Record]:
    """Yield the attempts of the provider call, if any failed: the failures, and the success that ended them."""
    errors = [step.turn.error for step in run.steps]
    if not any(errors):
        return
    for attempt, (error, step) in enumerate(zip(errors, run.steps, strict=True), 1):
        if error or attempt == len(errors):
            yield _provider_call(step, attempt) | (error or {"outcome": "ok"})


def _provider_call(step: Step, attempt: int) -> Record:
    made: dict[str, Any] = {"operation_id": PROVIDER_CALL, "tool": PROVIDER_CALL, "access": "read", "required": True}
    return made | {"attempt": attempt, "call_id": f"{PROVIDER_CALL}:{step.exchange.place or attempt}"}


ADAPTER = Adapter(
    name=NAME,
    title="Recorded responses of model providers: Anthropic, OpenAI (chat, responses), Azure, Gemini, Bedrock, Cohere "
    "and whoever speaks their dialects, in VCR cassettes, nock files, JSON, JSON Lines or event streams",
    cannot_tell=(
        "Whether the task was completed: a stop reason closes a turn and claims nothing.",
        "Whether a tool reads or writes, but for a few hosted search tools; unknown counts as write.",
        "How a tool call went where results have no status (OpenAI, Cohere, Gemini without error or output keys).",
        "What the host did after the last response: calls asked for there count as not executed.",
        "A refusal in words: a model that declines in plain text looks like any other answer.",
        "The context limit, where a provider names it in the error's words alone.",
        "Where a conversation forked: requests of one file that share their first messages count as one run.",
        "Who answered an MCP approval: only the client of the API is known.",
    ),
    recognises=recognises,
    read=read,
)
