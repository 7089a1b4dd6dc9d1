"""Keeps what a member was given when its group answers between two polls.

The library sends its request to join once, and asks at each poll whether the answer has come. One that came in between
it throws away, and joins again, which makes all others join again: members that poll shortly may never come to rest.
"""

from typing import Any

from kafka.structs import MemberState


def keep_answers(coordinator: Any) -> None:
    """Have a library's coordinator take the answer that has come, in place of asking once more."""
    ask = coordinator._do_join_and_sync_async  # noqa: SLF001 -- what it awaits, or begins anew, at each poll
    kept: list[Any] = []

    async def answer() -> Any:
        # It is stable once it has taken an answer, and unjoined once its group does not know it any more.
        if kept and coordinator.state is MemberState.REBALANCING:
            return kept.pop()
        kept.clear()
        answered = await ask()
        kept.append(answered)
        return answered

    coordinator._do_join_and_sync_async = answer  # noqa: SLF001
