"""PPO against its published CoinRun curve: trains for half an hour, compares, and writes docs/results/ (make
prove-learning). A run that was stopped is continued."""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from rlcb.config import load_config
from rlcb.runs.files import read_json_lines
from rlcb.runs.rundir import RunDir

CONFIG = "config/ppo_procgen_paper.yaml"
POINTS = {"0.25M": 250_000, "0.5M": 500_000}
STEPS = 540_000  # past the window of the last point
WINDOW = 0.05  # of the steps, as the published figures were averaged
WITHIN = 1.0  # reward


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", default="runs/published_curve", help="directory of the run (default: %(default)s)")
    parser.add_argument("--results", default="docs/results", help="directory of the results (default: %(default)s)")
    parser.add_argument("--report", action="store_true", help="only write the results of a run that is there")
    args = parser.parse_args()
    run, results = Path(args.run), Path(args.results)
    if not args.report:
        train(run)
    records = read_json_lines(run / "logs/PPO_Sequential/metrics.jsonl")
    rows = compare(records)
    results.mkdir(parents=True, exist_ok=True)
    summary = json.loads((run / "training_summary.json").read_text())
    (results / "published_curve.md").write_text(report(rows, summary))
    draw(records, results / "published_curve.png")
    print(report(rows, summary))
    sys.exit(0 if all(row["within"] for row in rows) else 1)


def train(run: Path) -> None:
    stopped = (run / "config.yaml").is_file() and not RunDir.of(load_config(run / "config.yaml", [])).is_summed_up()
    place = ["--resume", str(run)] if stopped else ["--config", CONFIG, "--output-dir", str(run), "--overwrite"]
    command = [sys.executable, "-m", "rlcb", "train", *place, "--total-timesteps", str(STEPS)]
    subprocess.run(command, check=True)


def published() -> dict[str, float]:
    text = (files("rlcb") / "data/published_ppo_curves.csv").read_text()
    for row in csv.DictReader(text.splitlines()):
        if (row["protocol"], row["game"], row["levels"]) == ("easy-200", "coinrun", "train"):
            return {name: float(row[name]) for name in POINTS}
    raise LookupError("no published figures for coinrun")


def compare(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over last-100-episode means that were logged within ±5% of the steps, beside the published figure."""
    rows = []
    for name, reference in published().items():
        steps = POINTS[name]
        near = [
            record["rollout/ep_reward_mean"]
            for record in records
            if abs(record["timesteps"] - steps) <= WINDOW * steps and "rollout/ep_reward_mean" in record
        ]
        reward = statistics.fmean(near)
        rows.append(
            {"steps": name, "ours": reward, "published": reference, "within": abs(reward - reference) <= WITHIN}
        )
    return rows


def report(rows: list[dict[str, Any]], summary: dict[str, Any]) -> str:
    lines = [
        "# PPO on CoinRun against its published curve",
        "",
        "Written by `make prove-learning`: PPO with the IMPALA network, CoinRun, easy mode, 200 training levels,",
        f"seed {summary['seed']}, settings of `{CONFIG}`. Mean training reward, averaged over ±{WINDOW:.0%} of the",
        "steps; the published figures are means of three seeds. The bar: within 1.0.",
        "",
        "| steps | ours | published | difference | within 1.0 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        difference = row["ours"] - row["published"]
        lines.append(
            f"| {row['steps']} | {row['ours']:.2f} | {row['published']:.2f} | {difference:+.2f} | "
            f"{'yes' if row['within'] else 'no'} |"
        )
    lines += [
        "",
        f"{summary['total_timesteps']:,} steps in {summary['duration_hours']:.2f} hours "
        f"({summary['avg_fps']:.0f} FPS on a machine that may have had other work; speed is measured by `make bench`), "
        f"{summary['num_episodes']:,} episodes, peak memory {summary['peak_memory_gb']:.2f} GB, "
        f"{summary['hardware']['cpu']}, {summary['hardware']['cores']} cores.",
        "",
        "![Training reward over steps](published_curve.png)",
        "",
    ]
    return "\n".join(lines)


def draw(records: list[dict[str, Any]], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    known = [record for record in records if record["rollout/episodes"] >= 100]
    steps = [record["timesteps"] / 1e6 for record in known]
    means = [record["rollout/ep_reward_mean"] for record in known]
    errors = [record["rollout/ep_reward_std"] / 10 for record in known]  # of a mean of 100 episodes
    figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes.plot(steps, means, color="#0072b2", label="this project, one seed (mean of the last 100 episodes)")
    low = [mean - error for mean, error in zip(means, errors, strict=True)]
    high = [mean + error for mean, error in zip(means, errors, strict=True)]
    axes.fill_between(steps, low, high, color="#0072b2", alpha=0.2, label="± standard error")
    reference = published()
    axes.errorbar(
        [POINTS[name] / 1e6 for name in reference],
        list(reference.values()),
        yerr=WITHIN,
        fmt="D",
        color="#d55e00",
        capsize=6,
        label="published (three seeds), ± 1.0",
    )
    axes.set(xlabel="environment steps (millions)", ylabel="training reward", ylim=(0, 10))
    axes.set_title("PPO, IMPALA network, CoinRun easy, 200 levels")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(file)


if __name__ == "__main__":
    main()
