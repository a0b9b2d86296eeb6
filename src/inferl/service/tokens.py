"""Tokens: who may read, and who may write."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from inferl.errors import SettingError

__all__ = ["Tokens", "new_token"]

SCOPES = ("read", "write")
VARIABLES = {"read": "INFERL_READ_TOKEN", "write": "INFERL_WRITE_TOKEN"}
SHORTEST = 16  # characters of a token of the environment


@dataclass(frozen=True)
class Tokens:
    """Hashes of tokens, each with what it allows; none: everybody may do everything.

    Tokens are long and random, so a plain hash is enough: nobody can go through all of them.

    Examples
    --------
    >>> token, line = new_token("read")
    >>> tokens = Tokens.parsed(line, "tokens.txt")
    >>> tokens.allow(f"Bearer {token}", "read"), tokens.allow(f"Bearer {token}", "write"), tokens.allow(None, "read")
    (True, False, False)
    """

    known: tuple[tuple[str, bytes], ...] = ()  # scope, SHA-256

    @classmethod
    def of(cls, path: Path | None, environment: Mapping[str, str] = os.environ) -> Tokens:
        """Read a file, and the environment."""
        found: list[tuple[str, bytes]] = []
        if path is not None:
            try:
                found += cls.parsed(path.read_text("utf-8"), str(path)).known
            except (OSError, UnicodeDecodeError) as error:
                raise SettingError(f"the tokens {path} cannot be read: {error}") from None
            if not found:
                raise SettingError(f"there are no tokens in {path}; make one with: inferl serve ... --new-token write")
        for scope, name in VARIABLES.items():
            if token := environment.get(name, "").strip():
                if len(token) < SHORTEST:
                    raise SettingError(f"{name} has {len(token)} characters; a token has {SHORTEST} at least")
                found.append((scope, _hash(token)))
        return cls(tuple(found))

    @classmethod
    def parsed(cls, text: str, name: str) -> Tokens:
        """Read lines such as ``write 9f86d0...``; # begins a comment."""
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[0] not in SCOPES or not re.fullmatch(r"[0-9a-f]{64}", words[1]):
                raise SettingError(f"{name}, line {number} is not read or write, and the SHA-256 of a token")
            found.append((words[0], bytes.fromhex(words[1])))
        return cls(tuple(found))

    def allow(self, authorization: str | None, scope: str) -> bool:
        """Return whether a header allows something; it takes the same time for all wrong tokens."""
        if not self.known:
            return True
        kind, _, token = (authorization or "").partition(" ")
        given = _hash(token.strip()) if kind.lower() == "bearer" else b""
        fits = [hmac.compare_digest(given, known) and allowed == scope for allowed, known in self.known]
        return any(fits)


def new_token(scope: str) -> tuple[str, str]:
    """Return a new token, and its line for the file."""
    if scope not in SCOPES:
        raise SettingError(f"a token is for read or write, not for {scope!r}")
    token = secrets.token_urlsafe(32)
    return token, f"{scope} {_hash(token).hex()}"


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
