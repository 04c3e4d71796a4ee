"""Train PPO in one process for a number of steps. Settings: config/ppo_sequential.yaml."""

from rlcb.cli import Door, main

main(Door(command="train", fixed={"algo": "ppo", "mode": "sequential"}, config="config/ppo_sequential.yaml"))
