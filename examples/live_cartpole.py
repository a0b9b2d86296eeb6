"""A policy that runs, and a service that evaluates it: open the address that is printed in a browser.

Usually the server runs elsewhere, by `inferl serve service.toml`; here it is started for you, for a minute.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import gymnasium

import inferl
from inferl.service.client import Client

SETTINGS = """\
port = 0  # any that is free

[experiments.pole]
features = "1 + obs"      # the four numbers that CartPole observes, and a constant
next-features = "new_obs"
discount = 0.99
thresholds = [30]         # is the value above 30?
"""
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0

Path("service.toml").write_text(SETTINGS)
inferl_command = Path(sys.executable).with_name("inferl")
server = subprocess.Popen([inferl_command, "serve", "service.toml"], stdout=subprocess.PIPE, text=True)
try:
    url = server.stdout.readline().split()[3].rstrip(";")
    print("the live page:", url, flush=True)

    with Client(url, "pole", name="robot-1") as client:  # waits at its end until all rows are there
        env = inferl.sources.ClientWrapper(gymnasium.make("CartPole-v1"), client)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            observation, _ = env.reset()
            ended = False
            while not ended:
                observation, _, terminated, truncated, _ = env.step(int(observation[2] > 0))
                ended = terminated or truncated

    time.sleep(3)  # until the last rows are on the page
    state = json.load(urlopen(f"{url}/v1/experiments/pole"))
    (target,) = state["snapshot"]["targets"]
    print(f"{target['text']['anytime']} 95% anytime, {state['n']:,} transitions")
    print(f"above 30: {target['decisions'][0]['is']}")
finally:
    server.terminate()
    server.communicate()
