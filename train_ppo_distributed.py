"""Train PPO over the nodes of a CPU cluster."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(Door(command="train", fixed={"algo": "ppo", "mode": "cluster"}, config="config/ppo_cpu_cluster.yaml"))
