"""All experiments: what each measures, where it lives, and the options that it reads.

It may not import an experiment, a plot or torch.
"""

from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError
from netem.experiments.experiment import APPS, DATA, DEVICE, DRAFT, LLAMA_SERVER, MODELS, TARGET, Experiment

_PLOTS = "netem.plots"
_ONE_DEVICE = "netem.experiments.one_device"
_SPEED = "netem.experiments.speed"
_OFFLINE = "netem.experiments.offline"


def _on_one_device(name: str, description: str, *options: str) -> Experiment:
    own = name.replace("-", "_")
    return Experiment(
        name,
        description,
        f"{_ONE_DEVICE}.{own}",
        f"{_PLOTS}.drafts:{own}",
        f"{_ONE_DEVICE}.compared_drafts:models",
        (MODELS, DRAFT, *options),
    )


def _of_speed(name: str, description: str) -> Experiment:
    own = name.replace("-", "_")
    return Experiment(name, description, f"{_SPEED}.{own}", f"{_PLOTS}.speed:{own}", f"{_SPEED}.testbed:models")


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "streaming",
            "The streaming tree against lock-step rounds and cloud decoding, over several links.",
            "netem.experiments.streaming",
            f"{_PLOTS}.speed:streaming",
        ),
        Experiment(
            "clients",
            "Eight clients at once on one server: sessions per pass, and nothing computed twice.",
            "netem.experiments.clients",
            f"{_PLOTS}.speed:clients",
        ),
        Experiment(
            "exactness",
            "Greedy answers against transformers' own generate, over public prompts (--data).",
            "netem.experiments.exactness",
            f"{_PLOTS}.exactness:exactness",
            options=(MODELS, DATA),
        ),
        Experiment(
            "conformance",
            "Answers constrained to 500 random JSON schemas: valid, the same for four drafts, and how fast.",
            "netem.experiments.conformance.measure",
            f"{_PLOTS}.exactness:conformance",
            f"{_SPEED}.testbed:models",
        ),
        Experiment(
            "families",
            "Greedy answers of 30 families of models, as random checkpoints, against transformers' own generate.",
            "netem.experiments.families",
            f"{_PLOTS}.exactness:families",
            "netem.experiments.experiment:no_models",
            options=(),
        ),
        Experiment(
            "sizes",
            "Memory and time of both ends for targets in their true shapes, with random weights.",
            "netem.experiments.sizes.measure",
            f"{_PLOTS}.machines:sizes",
            "netem.experiments.experiment:no_models",
            options=(MODELS, DRAFT, TARGET, DEVICE),
        ),
        Experiment(
            "coupled",
            "Sampled answers against transformers' with the same noise: five drafts, three idle policies, five links.",
            "netem.experiments.coupled",
            f"{_PLOTS}.exactness:coupled",
            f"{_SPEED}.testbed:models",
            options=(MODELS, DATA),
        ),
        Experiment(
            "precision",
            "Answers in bfloat16 and float16 against plain decoding through the same server, batch-invariant and fast.",
            "netem.experiments.precision",
            f"{_PLOTS}.exactness:precision",
            f"{_SPEED}.testbed:models",
            options=(MODELS, TARGET),
        ),
        Experiment(
            "ranks",
            "Answers and draft state of a target that is divided among ranks, against one process.",
            "netem.experiments.ranks",
            f"{_PLOTS}.exactness:ranks",
            f"{_SPEED}.testbed:models",
        ),
        Experiment(
            "law",
            "Tokens of speculative answers against the target's law, at many timings with many trees.",
            "netem.experiments.law.measure",
            f"{_PLOTS}.exactness:law",
            "netem.experiments.law.measure:models",
            options=(),
        ),
        Experiment(
            "torture",
            "Answers whose link or server is cut at random moments: every one must be the uninterrupted one.",
            "netem.experiments.torture.run",
            f"{_PLOTS}.outages:torture",
        ),
        Experiment(
            "flapping",
            "Answers over links that are back for moments only: all end, exactly, with what the server holds.",
            "netem.experiments.torture.flapping",
            f"{_PLOTS}.outages:flapping",
        ),
        Experiment(
            "soak",
            "Half an hour of apps over a link that breaks: memory stays flat, every answer is exact.",
            "netem.experiments.service.soak",
            f"{_PLOTS}.outages:soak",
        ),
        Experiment(
            "apps",
            "Real apps against the endpoint (--apps): with a link, with one that is cut, and without one.",
            "netem.experiments.apps.measure",
            f"{_PLOTS}.outages:apps",
            options=(MODELS, APPS),
        ),
        Experiment(
            "from-wheel",
            "How long it takes from the wheel, in a new environment, to an agent that edits a file (--apps).",
            "netem.experiments.apps.from_wheel",
            f"{_PLOTS}.machines:from_wheel",
            options=(MODELS, APPS),
        ),
        Experiment(
            "rolling",
            "Servers that are replaced while apps are answered: no request fails, none differs.",
            "netem.experiments.service.rolling",
            f"{_PLOTS}.outages:rolling",
        ),
        Experiment(
            "replicas",
            "Replicas that are killed under load: no answer fails, none differs, and nobody else moves.",
            "netem.experiments.service.replicas",
            f"{_PLOTS}.outages:replicas",
        ),
        Experiment(
            "fleet",
            "Replicas under Ray that are killed and updated under load: no answer fails, none differs.",
            "netem.experiments.service.fleet",
            f"{_PLOTS}.outages:replicas",
        ),
        Experiment(
            "overload",
            "Twice the clients that a server takes: who is let in keeps its pace, the rest are refused at once.",
            "netem.experiments.service.overload",
            f"{_PLOTS}.load:overload",
        ),
        Experiment(
            "beside-others",
            "Beside llama.cpp's server (--llama-server) and transformers' assisted generation, over the same links.",
            "netem.experiments.others.measure",
            f"{_PLOTS}.speed:beside_others",
            "netem.experiments.others.measure:models",
            options=(MODELS, LLAMA_SERVER),
        ),
        _of_speed("network", "Every system over every kind of link: tokens per second, first token, gaps, bytes."),
        _of_speed("first-token", "Time to the first token against the prompt's length and the link."),
        Experiment(
            "load",
            "Latency and tokens per pass-second, for rising arrivals and for 1 to 64 clients.",
            f"{_SPEED}.load",
            f"{_PLOTS}.load:load",
            f"{_SPEED}.testbed:models",
        ),
        Experiment(
            "load-timed",
            "`load` in real time without stated costs: 1 to 16 clients of one server, at its own speed.",
            f"{_SPEED}.load_timed",
            f"{_PLOTS}.load:load_timed",
            f"{_SPEED}.testbed:models",
            options=(MODELS, DEVICE),
        ),
        Experiment(
            "mixed",
            "Prompts of 8,000 tokens among chats: gaps of chats, first tokens of long prompts.",
            f"{_SPEED}.mixed",
            f"{_PLOTS}.load:mixed",
            "netem.experiments.experiment:no_models",
            options=(),
        ),
        Experiment(
            "capacity",
            "Clients of one GPU and of a fleet: the real policies, with acceptance recorded from the models.",
            "netem.experiments.capacity.measure",
            f"{_PLOTS}.load:capacity",
            f"{_SPEED}.testbed:models",
        ),
        Experiment(
            "capacity-timed",
            "The simulation of `capacity` beside real time: 1 to 16 clients on two replicas, at stated costs.",
            "netem.experiments.capacity.timed",
            f"{_PLOTS}.load:capacity_timed",
            "netem.experiments.experiment:no_models",
            options=(),
        ),
        Experiment(
            "capacity-failures",
            "A fleet of which replicas die, at a stated rate: how long clients wait, and what the others notice.",
            "netem.experiments.capacity.failures",
            f"{_PLOTS}.load:capacity_failures",
            "netem.experiments.experiment:no_models",
            options=(),
        ),
        _of_speed("frontier", "Tokens per pass against tokens per second, for every policy."),
        _of_speed("sets", "Every kind of prompt, measured and predicted by a discrete-event model."),
        _of_speed("clock", "The virtual clock against real time over tun, with one client and with four."),
        Experiment(
            "clock-replayed",
            "The same at the stated costs themselves, with recorded acceptance in place of the models.",
            "netem.experiments.capacity.clock_replayed",
            f"{_PLOTS}.speed:clock",
            "netem.experiments.experiment:no_models",
            options=(),
        ),
        _of_speed("controller", "The controller against the best fixed tree, on every link."),
        _of_speed("draft-choice", "The draft model that `auto` takes against every fixed one, on links and laptops."),
        Experiment(
            "formula",
            "Accept length and speed-up of drafted chains beside what the acceptance rate alone predicts.",
            f"{_SPEED}.formula",
            f"{_PLOTS}.drafts:formula",
            f"{_SPEED}.formula:models",
        ),
        Experiment(
            "engine",
            "Milliseconds of a pass over sessions, contexts and rows, against transformers and against memory.",
            f"{_ONE_DEVICE}.engine",
            f"{_PLOTS}.machines:engine",
            "netem.experiments.experiment:no_models",
            options=(TARGET, DEVICE),
        ),
        _on_one_device("single-device", "Every draft on one device: accept length and speed-up by category.", DEVICE),
        _on_one_device("weights", "Accept length of every draft with its weights in int8 and int4."),
        _on_one_device("ablation", "What each part of a draft adds, by a chain of four; rows are --draft in order."),
        _on_one_device(
            "quality", "Right answers with every draft, and whether they are the target's own, to the token."
        ),
        _on_one_device("trees", "Accept length and speed-up over breadth, depth and size of the tree."),
        _on_one_device("messages", "Bytes by kind for each token of a prompt and of an answer."),
        _on_one_device("states", "Accept length against bits, lag, gaps and order of draft state."),
        Experiment(
            "disconnect",
            "Tasks that pass when the link is cut for good in mid-answer, by draft (HumanEval with --data).",
            f"{_OFFLINE}.disconnect",
            f"{_PLOTS}.outages:disconnect",
            f"{_ONE_DEVICE}.compared_drafts:models",
            options=(MODELS, DRAFT, DATA),
        ),
        Experiment(
            "reconnect",
            "Provisional tokens that survive an outage in mid-answer, by its length and by draft.",
            f"{_OFFLINE}.reconnect",
            f"{_PLOTS}.outages:reconnect",
            f"{_ONE_DEVICE}.compared_drafts:models",
            options=(MODELS, DRAFT),
        ),
        _on_one_device(
            "sampling", "Accept length where the target samples: shared noise, without it, and by rejection."
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name. Raises MisuseError for an unknown name, with the nearest one."""
    experiment = EXPERIMENTS.get(name)
    if experiment is None:
        advice = did_you_mean(name, EXPERIMENTS) or f"choose one of {', '.join(EXPERIMENTS)}"
        raise MisuseError(f"there is no experiment '{name}': {advice}")
    return experiment
