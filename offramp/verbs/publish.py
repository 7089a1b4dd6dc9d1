"""``offramp publish``: records of files onto trial topics."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from offramp.console import ConfigOption, Format, FormatOption, give_json
from offramp.errors import ConfigurationError, OfframpError
from streams.topics import Encoding


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command(name="publish")(publish)


def publish(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of records; - is standard input.")],
    trial: Annotated[
        bool, typer.Option("--trial", help="To the topics of the trial, each record type to its.")
    ] = False,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="To this topic, whatever the record type.")
    ] = None,
    encoding: Annotated[
        Encoding, typer.Option("--encoding", help="How records are written; confluent needs a registry.")
    ] = Encoding.SINGLE_OBJECT,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", help="Messages a second at most.", min=0.001)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything; send nothing.")] = False,
    output: FormatOption = Format.TABLE,
    config: ConfigOption = None,
) -> None:
    """Put records onto topics, as their producers would: files as `classify` reads them, one message a record.

    Refuses a topic that a consumer group which is not ours reads or goes on to read, since nobody must act on trials;
    nothing overrides that. Counted is what the brokers confirmed. Ends with 1 if a record was none of the contract's or
    too large; its neighbours are published all the same.
    """
    from offramp.publishing import Order, Publishing
    from offramp.session import start

    if trial == (topic is not None):
        raise ConfigurationError("publish: say where to, by either --trial or --topic NAME")
    session = start(config)
    publishing = Publishing(session, Order(files, topic, encoding, rate, dry_run))
    try:
        with tempfile.TemporaryDirectory(prefix="offramp-") as spool:
            publishing.run(Path(spool))
    except (OfframpError, SystemExit):  # the latter is how a signal ends it
        publishing.say_so_far()
        raise
    if output is Format.TABLE:
        publishing.show()
    else:
        give_json(publishing.as_json(), output)
    publishing.say_rest()
    raise typer.Exit(1 if publishing.counts.refused else 0)
