"""Dovecot on loopback, as a user without rights: the real IMAP server of the tests.

    python -m tests.connectors.dovecot    # say which one is used; fetch it if need be

It is found, or it is Debian's package where this user is root. Elsewhere the tests that want it run
on pymap, which comes from the package registry: none is skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

HOST: Final = "127.0.0.1"
USER: Final = "nobody"  # who it runs as, where the tests run as root
PLACES: Final = "/usr/sbin:/usr/local/sbin:/usr/local/bin"
FETCH_S_MAX: Final = 600
START_S_MAX: Final = 60
ADVICE: Final = (
    "No Dovecot was found, and only root can fetch it: the tests of mail run on pymap alone. "
    "Install it: `apt-get install dovecot-imapd`."
)
# Every service runs as the same user, in no cage of its own: that needs no rights.
CONFIG: Final = """\
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = {host}, 127.0.0.2
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
mail_uid = {user}
mail_gid = {group}
first_valid_uid = 1
first_valid_gid = 1
mail_location = mdbox:{folder}/mail
mail_fsync = never
mail_max_userip_connections = 100
auth_mechanisms = plain login
auth_failure_delay = 0
ssl = yes
disable_plaintext_auth = no
ssl_cert = <{folder}/server.pem
ssl_key = <{folder}/server.pem
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = home={folder}/home
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Gesendet {{
    special_use = \\Sent
  }}
}}
service imap-login {{
  chroot =
  service_count = 0
  process_limit = 1
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
service imap {{
  service_count = 1000
  process_limit = 100
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
{more}
"""


def find() -> Path | None:
    """Return the program of a Dovecot; fetch one if there is none and this user may."""
    return _installed() or _debian()


def _installed() -> Path | None:
    found = shutil.which("dovecot") or shutil.which("dovecot", path=PLACES)
    return None if found is None else Path(found)


def _debian() -> Path | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    how = ("--yes", "--quiet=2", "--no-install-recommends")
    for words in (("update", "--quiet=2"), ("install", *how, "dovecot-imapd")):
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ("apt-get", *words),
                env=quiet,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=FETCH_S_MAX,
                check=False,
            )
    return _installed()


def free_port() -> int:
    """Find a port that is free now."""
    with socket.create_server((HOST, 0)) as found:
        return int(found.getsockname()[1])


class Dovecot:
    """One server, in a folder of its own; every name signs in with the one password."""

    def __init__(self, program: Path, certificate: Path, password: str, more: str = "") -> None:
        self.port, self.tls_port = free_port(), free_port()
        # Short, for the names of its sockets are; and open, for the server has a user of its own.
        self.folder = Path(tempfile.mkdtemp(prefix="duly-mail-"))
        self.folder.chmod(0o755)
        shutil.copy(certificate, self.folder / "server.pem")
        user, group = _user_and_group()
        (self.folder / "dovecot.conf").write_text(
            CONFIG.format(
                folder=self.folder,
                host=HOST,
                user=user,
                group=group,
                password=password,
                port=self.port,
                tls_port=self.tls_port,
                more=more,
            )
        )
        if os.geteuid() == 0:
            for each in (self.folder, *self.folder.iterdir()):
                shutil.chown(each, user, group)
        words = [str(program), "-F", "-c", str(self.folder / "dovecot.conf")]
        if (setpriv := shutil.which("setpriv")) is not None:  # it ends no later than the tests do
            words = [setpriv, "--pdeathsig", "TERM", *words]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            words, cwd=self.folder, stdout=quiet, stderr=quiet, **_as_user()
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(START_S_MAX * 40):
            if self._process.poll() is not None:
                break
            with suppress(OSError), socket.create_connection((HOST, self.port), timeout=5):
                return
            threading.Event().wait(0.025)
        log = self.folder / "log"
        said = log.read_text(errors="replace")[-2000:] if log.exists() else "nothing"
        self.close()
        raise AssertionError(f"Dovecot did not start; it said: {said}")

    def close(self) -> None:
        """End it, and take its folder away."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _user_and_group() -> tuple[str, str]:
    import grp
    import pwd

    user = pwd.getpwnam(USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    return user.pw_name, grp.getgrgid(user.pw_gid).gr_name


def _as_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    user, group = _user_and_group()
    return {"user": user, "group": group, "extra_groups": []}


if __name__ == "__main__":
    found = find()
    print(ADVICE if found is None else f"The mail server of the tests: {found}")
