"""Faust, as it is meant for sinks: ``take`` gathers a batch, which is judged and stored, then acknowledged."""

from typing import Any

from on_faust import Run, app_of, execute
from work import FRAMEWORK_LINGER_S, job

if __name__ == "__main__":
    the_job = job(batch=5_000)
    app = app_of(the_job)
    run = Run(the_job, app)

    @app.agent(app.topic(the_job.topic, value_serializer="raw"))
    async def classify(stream: Any) -> None:
        """Store batch by batch."""
        async for events in stream.take_events(the_job.batch, within=FRAMEWORK_LINGER_S):
            await run.store([run.judge(event) for event in events])

    execute(app)
