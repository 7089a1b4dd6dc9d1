"""Configuration, resolved once: one TOML file, then ``OFFRAMP_SECTION__KEY`` in the environment, then flags.

Unknown keys are errors, in the file and in the environment. A secret may be given as ``OFFRAMP_SECTION__KEY_FILE``, the
path of a file that holds it.
"""

import os
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from offramp.errors import ConfigurationError

PREFIX = "OFFRAMP_"
DEFAULT_FILE = "offramp.toml"
_SECRETS = {("redaction", "key")}


def _nameable(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("must not hold a NUL character")
    return path


_Path = Annotated[Path, AfterValidator(_nameable)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreSettings(_Section):
    """Where results are kept."""

    path: _Path = Field(Path(".offramp"), description="directory of the embedded store")
    lock_timeout_s: float = Field(10.0, ge=0, description="seconds to wait for whoever owns the store")


class RedactionSettings(_Section):
    """What is kept out of everything that is stored or shown, besides secrets that show by their form."""

    key: SecretStr | None = Field(None, min_length=16, description="key of the digests that replace secrets")
    paths: list[str] = Field(default_factory=list, description="fields that become digests wholly")


class ClassifySettings(_Section):
    """How events are classified."""

    table: _Path | None = Field(None, description="decision table; the default table if absent")
    unproven: bool = Field(default=False, description="decide by the table even if its proof fails; its exits say so")
    workers: int | None = Field(None, ge=0, le=256, description="worker processes; one per core if absent")


class Settings(_Section):
    """All settings, by section."""

    store: StoreSettings = StoreSettings()
    redaction: RedactionSettings = RedactionSettings()
    classify: ClassifySettings = ClassifySettings()


def resolve(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Mapping[str, Any]]) -> Settings:
    """The settings. ``flags`` are by section and key; None means not given. Raises ConfigurationError."""
    content = _from_file(file)
    for section, key, value in _from_environment(environment):
        content.setdefault(section, {})[key] = value
    for section, given in flags.items():
        content.setdefault(section, {}).update({key: value for key, value in given.items() if value is not None})
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError(_sentence(error.errors(include_input=False)[0])) from None


def _sentence(problem: ErrorDetails) -> str:
    place, kind = ".".join(str(part) for part in problem["loc"]), problem["type"]
    if kind == "extra_forbidden":
        return f"configuration: {place}: no such setting; there are {', '.join(_known_settings())}"
    if kind == "too_short":
        return f"configuration: {place}: must have at least {problem['ctx']['min_length']} characters"
    if kind == "path_type":
        return f"configuration: {place}: must be a path, as text in quotes"
    if kind == "value_error":
        return f"configuration: {place}: {problem['ctx']['error']}"
    return f"configuration: {place}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"


def _known_settings() -> list[str]:
    sections = [(name, info.annotation) for name, info in Settings.model_fields.items()]
    return [f"{section}.{key}" for section, model in sections if model for key in getattr(model, "model_fields", ())]


def _from_file(file: Path | None) -> dict[str, Any]:
    path = file or Path(DEFAULT_FILE)
    if file is None and not path.exists():
        return {}
    try:
        content = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: nested too deeply") from None
    for section, keys in content.items():
        if section in Settings.model_fields and not isinstance(keys, dict):
            raise ConfigurationError(f"{path}: {section}: must be one section, [{section}], with its settings below it")
    return content


def read_text(path: Path) -> str:
    """The text of a file, without a byte order mark. Raises ConfigurationError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: no UTF-8 text at byte {error.start}") from None


def _from_environment(environment: Mapping[str, str]) -> list[tuple[str, str, Any]]:
    found = []
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        value = text
        section, _, key = name.removeprefix(PREFIX).lower().partition("__")
        model = Settings.model_fields.get(section)
        if model is None or not key:
            raise ConfigurationError(f"{name}: no such setting; it is {PREFIX}SECTION__KEY")
        if key.endswith("_file") and (section, key.removesuffix("_file")) in _SECRETS:
            if name.removesuffix("_FILE") in environment:
                raise ConfigurationError(f"{name}: {name.removesuffix('_FILE')} is given too; one of them")
            key, value = key.removesuffix("_file"), _secret_from(name, text)
        found.append((section, key, _parsed(model.annotation, key, value)))
    return found


def _secret_from(name: str, path: str) -> str:
    try:
        return read_text(Path(path)).strip()
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None


def _parsed(section: Any, key: str, value: str) -> Any:
    """Text of the environment; a list is written with commas."""
    field = section.model_fields.get(key)
    return [part for part in value.split(",") if part] if field and field.annotation == list[str] else value


class RedactionKey(NamedTuple):
    """The key of the digests, or None and what to do about it."""

    key: bytes | None
    advice: str = ""


def redaction_key(settings: Settings, environment: Mapping[str, str]) -> RedactionKey:
    """The configured key, else this user's own, made at first use. None where none can be kept: then the first secret
    found is an error that says so."""
    if settings.redaction.key is not None:
        return RedactionKey(settings.redaction.key.get_secret_value().encode())
    setting = f"{PREFIX}REDACTION__KEY"
    home = _state_home(environment)
    if home is None:
        return RedactionKey(None, f"set {setting}; without HOME none can be made")
    path = home / "offramp" / "redaction.key"
    try:
        _make_once(path)
        return RedactionKey(path.read_bytes())
    except OSError as error:
        return RedactionKey(None, f"set {setting}; none can be kept in {path}: {error.strerror}")


def _state_home(environment: Mapping[str, str]) -> Path | None:
    """Where a user's programs keep their state. A relative XDG_STATE_HOME is to be ignored, says its specification."""
    given = Path(environment.get("XDG_STATE_HOME", ""))
    if given.is_absolute():
        return given
    home = environment.get("HOME")
    return Path(home, ".local", "state") if home else None


def _make_once(path: Path) -> None:
    """Make the key file complete or not at all, so that two first uses at once agree on one."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(secrets.token_hex(32).encode())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
