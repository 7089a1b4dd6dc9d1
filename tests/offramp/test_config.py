"""Where settings come from, which of them wins, and what is said of those that are none."""

import pytest

from offramp.config import Settings, redaction_key, resolve
from offramp.errors import ConfigurationError

KEY = "a key of the tests, long enough"


def _file(tmp_path, text):
    path = tmp_path / "offramp.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path):
    path = _file(tmp_path, "[store]\nlock_timeout_s = 1\n")
    environment = {"OFFRAMP_STORE__LOCK_TIMEOUT_S": "2"}
    assert resolve(path, {}, {}).store.lock_timeout_s == 1
    assert resolve(path, environment, {}).store.lock_timeout_s == 2
    assert resolve(path, environment, {"store": {"lock_timeout_s": 3}}).store.lock_timeout_s == 3
    assert resolve(path, environment, {"store": {"lock_timeout_s": None}}).store.lock_timeout_s == 2


def test_a_secret_may_stand_in_a_file_of_its_own(tmp_path):
    secret = tmp_path / "key"
    secret.write_text(f"{KEY}\n")
    found = resolve(None, {"OFFRAMP_REDACTION__KEY_FILE": str(secret)}, {}).redaction.key
    assert found is not None
    assert found.get_secret_value() == KEY


def test_a_byte_order_mark_is_no_content(tmp_path):
    assert resolve(_file(tmp_path, "\ufeff[classify]\nworkers = 0\n"), {}, {}).classify.workers == 0


REFUSED = {
    "an unknown key": ("[store]\nptah = 1\n", {}, "store.ptah: no such setting; there are store.path"),
    "an unknown section": ("[stroe]\n", {}, "stroe: no such setting"),
    "a variable of no setting": ("", {"OFFRAMP_STROE__PATH": "x"}, "OFFRAMP_STROE__PATH: no such setting"),
    "a variable of no key": ("", {"OFFRAMP_STORE__PTAH": "x"}, "store.ptah: no such setting"),
    "a short key": ("", {"OFFRAMP_REDACTION__KEY": "short"}, "redaction.key: must have at least 16 characters"),
    "a secret twice": ("", {"OFFRAMP_REDACTION__KEY": KEY, "OFFRAMP_REDACTION__KEY_FILE": "x"}, "one of them"),
    "a secret nowhere": ("", {"OFFRAMP_REDACTION__KEY_FILE": "/nowhere"}, "/nowhere: No such file or directory"),
    "no TOML": ("[", {}, "offramp.toml: "),
    "a value for a section": ('store = "x"\n', {}, "offramp.toml: store: must be one section, [store], with its"),
    "a section of several": ("[[store]]\n", {"OFFRAMP_STORE__PATH": "x"}, "store: must be one section, [store]"),
    "a section of an unknown kind": ('stroe = "x"\n', {}, "stroe: no such setting"),
    "lists that are nested too deeply": (f"x = {'[' * 5000}", {}, "offramp.toml: nested too deeply"),
    "a path that no file can have": ('[store]\npath = "\\u0000"\n', {}, "store.path: must not hold a NUL character"),
    "too long a retention": (
        "[store]\nkeep_events_days = 18251\n",
        {},
        "store.keep_events_days: must be at most 18250",
    ),
    "topics for ever": ("[topics]\nretention_days = inf\n", {}, "topics.retention_days: must be at most 18250, which"),
    "a wait without end": ("[store]\nlock_timeout_s = inf\n", {}, "store.lock_timeout_s: must be at most 1576800000"),
    "a wait that is no number": ("[shadow]\npatience_s = nan\n", {}, "shadow.patience_s: "),
    "a number for a path": ("[classify]\ntable = 1\n", {}, "classify.table: must be a path, as text in quotes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said(tmp_path, case):
    text, environment, said = REFUSED[case]
    with pytest.raises(ConfigurationError) as caught:
        resolve(_file(tmp_path, text), environment, {})
    assert said in str(caught.value)
    assert KEY not in str(caught.value)


def test_fifty_years_can_be_kept_and_more_is_kept_by_leaving_it_out(tmp_path):
    days = {"keep_events_days": 18_250, "keep_ledger_days": 18_250, "keep_companions_days": None}
    assert resolve(None, {}, {"store": days}).store.keep_events_days == 18_250
    with pytest.raises(ConfigurationError, match="leave it out to keep everything"):
        resolve(None, {"OFFRAMP_STORE__KEEP_LEDGER_DAYS": "99999999999999999999"}, {})


# --- the redaction key


def test_a_key_is_made_once_below_the_users_state(tmp_path):
    first = redaction_key(Settings(), {"HOME": str(tmp_path)}).key
    assert first is not None
    assert redaction_key(Settings(), {"HOME": str(tmp_path)}).key == first
    assert (tmp_path / ".local" / "state" / "offramp" / "redaction.key").read_bytes() == first
    assert redaction_key(Settings(), {"HOME": "/", "XDG_STATE_HOME": str(tmp_path / "x")}).key not in (None, first)


def test_a_relative_place_for_state_is_ignored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    assert redaction_key(Settings(), {"HOME": str(home), "XDG_STATE_HOME": "state"}).key is not None
    assert list(tmp_path.iterdir()) == [home]


def test_where_no_key_can_be_made_the_setting_and_the_place_are_named(tmp_path):
    (tmp_path / "file").touch()
    found = redaction_key(Settings(), {"XDG_STATE_HOME": str(tmp_path / "file")})
    path = tmp_path / "file" / "offramp" / "redaction.key"
    assert found == (None, f"set OFFRAMP_REDACTION__KEY; none can be kept in {path}: Not a directory")
    assert redaction_key(Settings(), {}) == (None, "set OFFRAMP_REDACTION__KEY; without HOME none can be made")
