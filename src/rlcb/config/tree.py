"""The typed tree of every setting. Descriptions here are the help texts and the configuration reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic.fields import FieldInfo

from rlcb.games import game_id

Algo = Literal["ppo", "a2c", "a3c", "impala"]
Mode = Literal["sequential", "parallel", "cluster"]

MAX_ENVS = 65536
PART_SAMPLES, LEAST_PARTS = 256, 4  # of a gradient: parts of about so many samples, but not fewer parts than that
IMPALA_UNROLL = 16  # steps of an unroll, at most, where no batch size is given

ALGORITHM_LABELS = {"ppo": "PPO", "a2c": "A2C", "a3c": "A3C", "impala": "IMPALA"}


def _number(value: Any) -> Any:
    """Numbers as people type them: `25_000_000`, `1e6`, `3e-4` (which YAML reads as text), but never true or false."""
    if isinstance(value, bool):
        raise ValueError("is true or false, not a number")
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return value
        return int(number) if number.is_integer() else number
    return value


Int = Annotated[int, BeforeValidator(_number)]
Float = Annotated[float, BeforeValidator(_number)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


class EnvSettings(Section):
    name: str = Field(
        "procgen-coinrun-v0", description="game: coinrun, procgen-coinrun-v0 or procgen:procgen-coinrun-v0"
    )
    num_envs: Int = Field(32, ge=1, le=MAX_ENVS, description="environments in all")
    seed: Int = Field(42, ge=0, lt=2**31, description="seed of levels, actions, minibatches and weights")
    distribution_mode: Literal["easy", "hard", "extreme", "memory"] = Field("easy", description="Procgen's difficulty")
    num_levels: Int = Field(200, ge=0, lt=2**31, description="training levels; 0 for all levels")
    start_level: Int = Field(0, ge=0, lt=2**31, description="first training level")

    @field_validator("name")
    @classmethod
    def _known_game(cls, name: str) -> str:
        return game_id(name)


class ModelSettings(Section):
    arch: Literal["nature", "impala"] = Field(
        "nature", description="network: nature (three convolutions, 512) or impala (residual 16, 32, 32, 256)"
    )


class TrainingSettings(Section):
    n_steps: Int = Field(128, ge=1, le=65536, description="steps of every environment per rollout")
    total_timesteps: Int | None = Field(25_000_000, ge=1, description="stop after so many environment steps")
    duration: Float | None = Field(None, gt=0, description="stop after so many hours")
    batch_size: Int | None = Field(
        None,
        ge=1,
        description="samples per gradient step, all environments; null: the whole rollout (IMPALA: 16 steps of each)",
    )
    n_epochs: Int = Field(1, ge=1, le=1000, description="passes over every rollout")
    learning_rate: Float = Field(3e-4, gt=0, le=1, description="step size of the optimizer")
    anneal_lr: bool = Field(False, description="let the learning rate fall to zero over the budget")
    gamma: Float = Field(0.999, ge=0, le=1, description="discount of the future")
    gae_lambda: Float = Field(0.95, ge=0, le=1, description="trade-off of bias and variance in the advantage")
    ent_coef: Float = Field(0.01, ge=0, description="weight of the entropy bonus")
    vf_coef: Float = Field(0.5, ge=0, description="weight of the value loss")
    max_grad_norm: Float = Field(0.5, gt=0, description="gradients longer than this are shortened to it")
    normalize_advantage: bool = Field(False, description="give every minibatch's advantages mean 0 and std 1")
    reward_scaling: bool = Field(True, description="divide rewards by the running std of discounted returns")
    log_interval: Int = Field(1, ge=1, description="updates between two lines of progress and metrics")
    save_interval: Int = Field(100, ge=1, description="updates between two checkpoints that are kept")
    autosave_minutes: Float = Field(5.0, gt=0, description="minutes between two overwrites of the latest checkpoint")


class PPOSettings(Section):
    clip_range: Float = Field(0.2, gt=0, le=1, description="how far the new policy may move from the old")
    clip_range_vf: Float | None = Field(None, gt=0, description="the same for the value; null for no clipping")
    target_kl: Float | None = Field(
        None, gt=0, description="end the update when the policy moved this far; null: never"
    )


class IMPALASettings(Section):
    vtrace_clip_rho_threshold: Float = Field(1.0, gt=0, description="cap of the importance weight in the value target")
    vtrace_clip_pg_rho_threshold: Float = Field(
        1.0, gt=0, description="cap of the importance weight in the policy gradient"
    )


class ParallelSettings(Section):
    num_workers: Int | None = Field(
        None, ge=1, le=4096, description="worker processes (PPO, A2C, A3C); null: one per core, as far as they divide"
    )
    num_envs_per_worker: Int | None = Field(None, ge=1, description="environments of every worker")
    num_actors: Int | None = Field(
        None, ge=1, le=4096, description="actor processes (IMPALA); null: one per core, as far as they divide"
    )
    num_envs_per_actor: Int | None = Field(None, ge=1, description="environments of every actor")
    num_learners: Int | None = Field(
        None, ge=1, le=4096, description="learner processes (IMPALA); null: chosen from costs measured at the start"
    )
    max_policy_lag: Int = Field(
        20, ge=1, description="gradient steps that a rollout may be behind when it is learnt from (IMPALA)"
    )
    max_restarts: Int = Field(3, ge=0, description="how often dead or frozen workers are started again")
    timeout: Float | None = Field(
        None,
        ge=1,
        le=3600,
        description="seconds without an answer after which a process counts as frozen; null: 25, on a cluster 60",
    )


class ClusterSettings(Section):
    num_workers: Int = Field(4, ge=1, le=4096, description="worker processes (IMPALA: actors) over all nodes")
    nodes: Int = Field(1, ge=1, le=1024, description="machines; the same command is started on each of them")
    min_nodes: Int | None = Field(None, ge=1, description="go on with so many when nodes are lost; null: all of them")
    interface: str | None = Field(
        None, description="network interface that the nodes talk over; null: the one that leads to master_addr"
    )
    sync: Literal["allreduce", "accumulate", "average"] = Field(
        "allreduce",
        description="gradients are exchanged per minibatch (allreduce) or once per epoch, in one step (accumulate), or "
        "never: workers step by themselves, and weights are averaged every average_every updates (average)",
    )
    compression: Literal["none", "fp16"] = Field(
        "none", description="send gradients and weights in half precision (fp16)"
    )
    average_every: Int = Field(
        4, ge=1, description="updates between two averages of weights (average, and A3C's nodes)"
    )
    straggler_cut: bool = Field(
        False,
        description="a worker stops collecting when 60% have finished and it has a quarter of its rollout (PPO, A2C)",
    )
    run_id: str | None = Field(None, description="the same on all nodes of a run; null: from its directory")
    distributed_backend: Literal["gloo"] = Field("gloo", description="what ranks talk over; gloo is the one for CPUs")
    master_addr: str = Field("localhost", description="address of the first node")
    master_port: Int = Field(29500, ge=1, le=65535, description="port of the first node")


class HardwareSettings(Section):
    device: Literal["cpu"] = Field("cpu", description="this project trains on CPUs only")
    num_threads: Int | None = Field(
        None,
        ge=1,
        le=4096,
        description="threads of torch in every process that learns, as far as there are CPUs; null: one per physical "
        "core, or one for each of several processes",
    )
    micro_batch_size: Int | None = Field(
        None, ge=1, description="samples per backward pass (memory only, gradients add up); null: best of the network"
    )


class LoggingSettings(Section):
    output_dir: str | None = Field(None, description="directory of the run; holds checkpoints/ and logs/")
    checkpoint_dir: str | None = Field(None, description="directory of the checkpoints, where not in the run's")
    log_dir: str | None = Field(None, description="directory of the logs, where not in the run's")


class Crew(NamedTuple):
    name: str  # Worker or Actor
    number: int
    envs_each: int


class Config(Section):
    algo: Algo = Field("ppo", description="algorithm")
    mode: Mode = Field("sequential", description="execution")
    env: EnvSettings = EnvSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    ppo: PPOSettings = PPOSettings()
    impala: IMPALASettings = IMPALASettings()
    parallel: ParallelSettings = ParallelSettings()
    cluster: ClusterSettings = ClusterSettings()
    hardware: HardwareSettings = HardwareSettings()
    logging: LoggingSettings = LoggingSettings()

    @property
    def batch_size(self) -> int:
        """Samples per gradient step, over all environments."""
        if self.sync == "accumulate" and self.algo != "impala":
            return self.rollout_size
        if self.training.batch_size is not None:
            return self.training.batch_size
        if self.algo == "impala":
            return self.num_envs * max(k for k in range(1, IMPALA_UNROLL + 1) if self.training.n_steps % k == 0)
        return self.rollout_size

    @property
    def num_envs(self) -> int:
        """Environments in all."""
        return self.env.num_envs

    @property
    def crew(self) -> Crew | None:
        """The processes that collect, where there are several; over all nodes."""
        if self.mode == "sequential":
            return None
        block = self.parallel
        if self.algo == "impala":
            return Crew("Actor", block.num_actors or 1, block.num_envs_per_actor or self.num_envs)
        return Crew("Worker", block.num_workers or 1, block.num_envs_per_worker or self.num_envs)

    @property
    def rank_name(self) -> str:
        """What a process is called that exchanges gradients."""
        return {"impala": "Learner", "a3c": "Coordinator"}.get(self.algo, "Worker")

    @property
    def num_ranks(self) -> int:
        """Processes that exchange gradients, over all nodes."""
        if self.crew is None:
            return 1
        if self.algo in ("ppo", "a2c"):
            return self.crew.number
        if self.mode == "cluster":
            return self.cluster.nodes
        return self.parallel.num_learners or 1 if self.algo == "impala" else 1

    @property
    def num_nodes(self) -> int:
        return self.cluster.nodes if self.mode == "cluster" else 1

    @property
    def sync(self) -> str:
        """What travels; only a cluster has a choice."""
        return self.cluster.sync if self.mode == "cluster" else "allreduce"

    @property
    def compresses(self) -> bool:
        """Do gradients travel in half precision?"""
        return self.mode == "cluster" and self.cluster.compression == "fp16"

    @property
    def cuts_stragglers(self) -> bool:
        """Do the slowest stop collecting early?"""
        return self.mode == "cluster" and self.cluster.straggler_cut

    @property
    def timeout(self) -> float:
        """Seconds without an answer after which a process counts as frozen."""
        return self.parallel.timeout or (60.0 if self.mode == "cluster" else 25.0)

    @property
    def patience(self) -> float:
        """The same for actors and Hogwild workers: replaced before other learners give up waiting for ours."""
        return self.timeout / 2 if self.num_ranks > 1 else self.timeout

    @property
    def rollout_size(self) -> int:
        return self.num_envs * self.training.n_steps

    @property
    def gradient_parts(self) -> int:
        """How many parts the environments are cut into, where ranks learn in lockstep. Gradients are added up part by
        part, in an order that does not depend on how many ranks have them, so that every bit stays the same."""
        parts = 1
        if self.algo in ("ppo", "a2c"):
            most = max(LEAST_PARTS, self.batch_size // PART_SAMPLES)
            while 2 * parts <= most and self.num_envs % (2 * parts) == 0:
                parts *= 2
        return parts

    @property
    def run_name(self) -> str:
        """Stem of the checkpoints: ppo_sequential."""
        return f"{self.algo}_{self.mode}"

    @property
    def log_name(self) -> str:
        """Folder of the logs: PPO_Sequential."""
        return f"{ALGORITHM_LABELS[self.algo]}_{self.mode.capitalize()}"


# What an algorithm sets differently from the tree's own defaults. The guides' values where they give one.
ALGORITHM_DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": {"training": {"batch_size": 1024, "n_epochs": 4, "normalize_advantage": True}},
    "a2c": {"training": {"n_steps": 16, "learning_rate": 7e-4}},
    "a3c": {"training": {"n_steps": 16, "learning_rate": 7e-4}},
    "impala": {"training": {"learning_rate": 1e-4, "gae_lambda": 1.0, "max_grad_norm": 40.0}},
}

# Settings that have a flag of another name than their own.
_FLAG_NAMES = {"env.name": "--env"}
# Settings without a flag: `cluster.num_workers` shares its name with `parallel.num_workers`.
_NO_FLAG = {"cluster.num_workers"}


def leaves() -> Iterator[tuple[str, FieldInfo]]:
    """Every setting with its dotted path, in the order of the tree."""
    for name, field in Config.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for leaf, leaf_field in section.model_fields.items():
                yield f"{name}.{leaf}", leaf_field
        else:
            yield name, field


def flag_name(path: str) -> str | None:
    """`training.n_steps` is `--n-steps`."""
    if path in _NO_FLAG:
        return None
    return _FLAG_NAMES.get(path) or "--" + path.rpartition(".")[2].replace("_", "-")
