"""Real Apache Kafka for tests: :class:`tests.broker.kafka.KafkaBroker`, and its fixtures."""
