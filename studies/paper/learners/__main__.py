"""``python -m studies.paper.learners``: train the network whose features the Pong experiment uses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from inferl.errors import InferlError, MissingExtraError


def train_pong(
    output: Annotated[Path, typer.Option(help="Folder for the weights and the checkpoint.")] = Path("pong"),
    seconds: Annotated[float, typer.Option(help="Stop after so many seconds of training.")] = float("inf"),
    seed: Annotated[int, typer.Option(help="Seed of the network, the games and the exploration.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the folder.")] = False,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="Only measure the shipped policy's score.")] = False,
    games: Annotated[int, typer.Option(help="Games that the score is measured over.")] = 30,
) -> None:
    """Train a DQN on Atari Pong from scratch, or measure the shipped one.

    A GPU needs minutes, a CPU days. Needs the extras torch (for training) and atari.

    python -m studies.paper.learners --output pong --seconds 440

    python -m studies.paper.learners --evaluate
    """
    import numpy as np
    from rich.console import Console

    from studies.paper.learners.play import ale, play

    console = Console(highlight=False)
    ale()
    if evaluate:
        from studies.paper.learners.network import PongNetwork

        network = PongNetwork.shipped()
        scores = play(lambda frames: network.action_values(frames).argmax(axis=1), games, seed=seed)
        console.print(f"greedy score {np.mean(scores):.2f} over {games} games (least {min(scores):.0f})")
        return
    try:
        from studies.paper.learners import dqn
    except ImportError:
        raise MissingExtraError("torch", "torch") from None
    output.mkdir(parents=True, exist_ok=True)
    checkpoint = output / "checkpoint.pt"
    trainer = dqn.Trainer.resume(checkpoint) if resume else dqn.Trainer(dqn.Settings(seed=seed))
    trainer.train(
        lambda line: console.print(f"{line['step']:>10} steps  {line['seconds']:>7.1f} s  score {line['score']:.2f}"),
        checkpoint,
        seconds,
    )
    np.savez_compressed(output / "weights.npz", **dqn.weights(trainer.network))
    console.print(f"weights: {output / 'weights.npz'}")


app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
app.command()(train_pong)


def main() -> None:
    """Run the command; an expected error is one line."""
    try:
        app(prog_name="python -m studies.paper.learners")
    except InferlError as error:
        typer.echo(f"studies.paper.learners: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
