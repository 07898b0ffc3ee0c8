"""The file of credentials: who may read it, and what is said of a damaged one."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from rli.errors import SettingsError
from rli.store.credentials import VARIABLE, credentials_for


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "credentials.toml"
    monkeypatch.setenv(VARIABLE, str(path))
    path.touch(mode=0o600)
    path.write_text('["h:1"]\npassword = "s3cret"\n')
    return path


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o660, 0o601])
def test_shared_credentials_file_is_refused(file: Path, mode: int) -> None:
    assert credentials_for(["h:1"]) is not None
    file.chmod(mode)
    with pytest.raises(SettingsError, match="chmod 600"):
        credentials_for(["h:1"])


def test_non_regular_file_is_refused(file: Path, tmp_path: Path) -> None:
    file.unlink()
    assert credentials_for(["h:1"]) is None
    file.mkdir(mode=0o700)
    with pytest.raises(SettingsError, match="credentials"):
        credentials_for(["h:1"])
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "content",
    [
        '["h:1"]\npassword = s3cret\n',
        '["h:1"]\npassword = "s3cret\n',
        '["h:1"]\npassword = ["s3cret"]\n',
        '["h:1"]\npasswort = "s3cret"\n',
        '["h:1"]\npassword = "s3cret"\ntls = "s3cret"\n',
        'password = "s3cret"\n',
        '"h:1" = "s3cret"\n',
        '["h:1"]\npassword = "\\ud800s3cret"\n',
        "a = " + "[" * 100_000,
        "\0s3cret",
        "\x80s3cret",
    ],
)
def test_damaged_file_error_hides_secrets(file: Path, content: str) -> None:
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(SettingsError, match=r"credentials are damaged: file=.*credentials\.toml") as caught:
        credentials_for(["h:1"])
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
