# Everything here works on a fresh machine with Python 3.11 or newer, make and apt.

PYTHON ?= python3
VENV := .venv
# What of the tests `make test` runs, as arguments of pytest.
TESTS ?= -m "not broker"
BIN := $(VENV)/bin
SOURCES := $(shell find schemas classifier alerts sources sinks shadow streams offramp -name '*.py' -o -name '*.toml' -o -name '*.sql' -o -name '*.avsc' -o -name '*.json')
PACKAGING := pyproject.toml setup.py constraints.txt

# Pinned versions also for what builds the package.
export PIP_CONSTRAINT := $(abspath constraints.txt)
export PIP_BUILD_CONSTRAINT := $(abspath constraints.txt)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test quick lint docs bench fuzz mutants clean

demo: $(VENV)/installed  ## set up, classify real agent runs, say what was found
	@examples/demo.sh $(BIN)/offramp

test: $(VENV)/dev broker-if-possible monitors-if-possible browser-if-possible  ## set up and run the tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(TESTS)

.PHONY: test-broker faults
test-broker: $(VENV)/dev broker  ## the tests against real Apache Kafka, without those of `make faults`
	$(BIN)/python -m pytest -m "broker and not faults"

faults: $(VENV)/dev broker  ## take worker, broker and store away in every way, on a machine that does nothing else
	$(BIN)/python -m pytest -m faults

quick: $(VENV)/dev-only  ## the tests that need no installed package, for working on the code
	$(BIN)/python -m pytest -x -n 2 -m "not installed"

lint: $(VENV)/dev-only  ## style, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/dev-only  ## write again what is generated: schemas, reference pages, rules for Prometheus
	$(BIN)/python -m schemas.publish
	$(BIN)/python -m streams.asyncapi
	$(BIN)/python -m offramp.reference
	$(BIN)/python -m offramp.prometheus_rules

bench: $(VENV)/dev  ## the measured claims, as ratios in one run
	$(BIN)/python -m bench

.PHONY: bench-stream
bench-stream: $(VENV)/dev broker  ## offramp beside other programs at the same work on real Kafka
	$(BIN)/python -m bench.stream

.PHONY: soak
soak: $(VENV)/dev-only broker  ## the long faults, then random ones for 20 minutes; MINUTES= SEED= SKIP_LONG=1
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),20) --seed $(or $(SEED),1) $(if $(SKIP_LONG),--skip-long)

fuzz: $(VENV)/dev-only  ## the classifier against its executable specification, 2 x 200,000 events
	$(BIN)/python -m tests.spec.fuzz --events 200000 --seed 1

mutants: $(VENV)/dev-only  ## break the classifier and the table in every small way, and count what no test notices
	$(BIN)/python -m tests.mutants

clean:  ## remove what make made
	rm -rf $(VENV) build *.egg-info

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11; set PYTHON=/path/to/python3"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory apt PACKAGES=python3-venv
	@# A compiler halves the cost of a classification; without one everything works all the same.
	@command -v cc >/dev/null || $(MAKE) --no-print-directory apt PACKAGES="gcc libc6-dev python3-dev" || true
	$(PYTHON) -m venv $(VENV)

.PHONY: broker broker-if-possible
broker: $(VENV)/kafka/complete  ## fetch Apache Kafka, which tests run against

# Without it the tests that need a broker say so and are skipped, or fail where CI is set.
broker-if-possible: $(BIN)/python
	@$(MAKE) --no-print-directory broker || echo "Apache Kafka could not be fetched: tests that need a broker are skipped"

$(VENV)/kafka/complete: tests/broker/pom.xml | $(BIN)/python
	@command -v mvn >/dev/null && command -v java >/dev/null && command -v openssl >/dev/null || $(MAKE) --no-print-directory apt PACKAGES="maven default-jre-headless openssl"
	rm -rf $(@D)
	mvn -q -B -f tests/broker/pom.xml dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

.PHONY: monitors monitors-if-possible
monitors: $(VENV)/monitors/complete  ## fetch Prometheus and Alertmanager, which tests run against

# Without them the tests that need one say so and are skipped, or fail where CI is set.
monitors-if-possible: $(BIN)/python
	@$(MAKE) --no-print-directory monitors || echo "Prometheus and Alertmanager could not be fetched: tests that need one are skipped"

# Unpacked and not installed, so that no service is started.
$(VENV)/monitors/complete: | $(BIN)/python
	rm -rf $(@D) && mkdir -p $(@D)
	apt-get update -qq && cd $(@D) && apt-get download -qq prometheus prometheus-alertmanager && for package in *.deb; do dpkg -x $$package . || exit 1; done
	@touch $@

.PHONY: browser browser-if-possible
browser: $(VENV)/browser/complete  ## fetch Chromium and axe-core, which look at HTML in tests

# Without them the tests that need one say so and are skipped, or fail where CI is set.
browser-if-possible: $(BIN)/python
	@$(MAKE) --no-print-directory browser || echo "Chromium and axe-core could not be fetched: tests that need one are skipped"

$(VENV)/browser/complete: tests/browser/package.json tests/browser/package-lock.json | $(BIN)/python
	@command -v chromium >/dev/null || $(MAKE) --no-print-directory apt PACKAGES="chromium fonts-dejavu-core"
	@command -v npm >/dev/null || $(MAKE) --no-print-directory apt PACKAGES=npm
	rm -rf $(@D) && mkdir -p $(@D) && cp tests/browser/package*.json $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --silent
	@touch $@

.PHONY: apt
apt:
	apt-get update -qq && apt-get install -y -qq --no-install-recommends $(PACKAGES)

$(VENV)/installed: $(BIN)/python $(PACKAGING) $(SOURCES)
	$(BIN)/pip install -q ".[embedded]"
	@touch $@

$(VENV)/dev: $(BIN)/python $(PACKAGING) $(SOURCES)
	$(BIN)/pip install -q ".[embedded,kafka,confluent,otel,dev]"
	@touch $@ $(VENV)/installed $(VENV)/dev-only

$(VENV)/dev-only: $(BIN)/python $(PACKAGING)
	$(BIN)/pip install -q ".[embedded,kafka,confluent,otel,dev]"
	@touch $@
