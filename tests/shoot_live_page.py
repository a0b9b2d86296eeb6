"""Take the picture of the live page for the documentation: two rankings of a shop, simulated, over a minute.

python tests/shoot_live_page.py docs/images/live.png
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from chromium import browsing
from serving import Server

from inferl.data.arrays import Floats
from inferl.service.client import Client

SETTINGS = """\
[experiments.new-ranking]
features = "1 + C(page, levels=['home', 'list', 'item', 'cart'])"
episode = "visit"
terminated = "left"
discount = 1
thresholds = [2.0]
every = "1s"

[experiments.old-ranking]
features = "1 + C(page, levels=['home', 'list', 'item', 'cart'])"
episode = "visit"
terminated = "left"
discount = 1
thresholds = [2.0]
every = "1s"
"""
PAGES = ("home", "list", "item", "cart")


def visit(chance: Floats, number: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """One visit: from page to page until the visitor leaves; an order in the cart is worth about 10."""
    rows, page = [], 0
    while True:
        on = rng.random() < chance[page]
        bought = page == 3 and on
        reward = float(rng.gamma(4, 2.5)) if bought else 0.0
        rows.append({"visit": number, "page": PAGES[page], "reward": reward, "left": not on or bought})
        if not on or bought:
            return rows
        page = min(page + 1, 3) if rng.random() < 0.8 else max(page - 1, 0)


def main(path: Path, seconds: float = 75.0) -> None:
    rng = np.random.default_rng(0)
    chances = {"new-ranking": np.array([0.8, 0.83, 0.78, 0.7]), "old-ranking": np.array([0.8, 0.75, 0.72, 0.7])}
    with tempfile.TemporaryDirectory() as folder, browsing(Path(folder) / "profile") as page:
        server = Server(Path(folder), experiments=SETTINGS)
        server.start()
        clients = {name: Client(server.url, name, name="shop-1") for name in chances}
        begin, number = time.monotonic(), 0
        while time.monotonic() < begin + seconds:
            for name, chance in chances.items():
                for _ in range(4):
                    clients[name].send_rows(visit(chance, number, rng))
                    number += 1
            time.sleep(0.05)
        page.look(1120, 880)
        page.open(server.url)
        page.wait("document.querySelectorAll('.over-time svg').length", lambda n: n == 2)
        time.sleep(1)
        page.shoot(path, whole=False)
        for client in clients.values():
            client.close()
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
