"""Files of torch.save are read without running anything; damaged and hostile ones end in one line."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import GOLDEN
from hypothesis import given
from hypothesis import strategies as st

from convs2s.errors import UserError
from convs2s.interop.plain_pickle import read_pickle
from convs2s.interop.torch_file import STACKED_MAGIC, TorchFile

OLD = {"_use_new_zipfile_serialization": False}


class Hostile:
    """Unpickling it makes a file named ``witness``."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.witness),)


def tensors() -> dict[str, torch.Tensor]:
    base = torch.arange(24, dtype=torch.float32)
    return {
        "matrix": base.view(4, 6),
        "transposed": base.view(4, 6).t(),
        "slice": base[5:9],
        "half": torch.randn(3, dtype=torch.float16),
        "bfloat": torch.randn(3, dtype=torch.bfloat16),
        "long": torch.tensor([2**40, -1]),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.randn(2, 2)),
    }


@pytest.mark.parametrize("options", [{}, OLD])
def test_agrees_with_torch_load(options: dict[str, Any], tmp_path: Path) -> None:
    """Fault: strides, offsets, shared storages or types are misread in one of the formats."""
    saved = {"model": OrderedDict(tensors()), "numbers": [1, -2.5, 2**70, True, None, (1, "ü\n"), {3: 4}]}
    torch.save(saved, tmp_path / "file.pt", **options)
    file = TorchFile(tmp_path / "file.pt")
    assert file.content["numbers"] == saved["numbers"]
    for name, tensor in tensors().items():
        if name not in ("half", "bfloat", "parameter"):
            assert torch.equal(file.tensor(file.content["model"][name]), tensor), name
    loaded = torch.load(tmp_path / "file.pt", weights_only=True)["model"]
    for name in ("half", "bfloat", "parameter"):
        found = file.tensor(file.content["model"][name])
        assert found.dtype == loaded[name].dtype
        assert torch.equal(found, loaded[name].detach())


def test_storages_of_a_gpu_come_to_the_cpu(tmp_path: Path) -> None:
    """Fault: a file saved on a GPU needs one to be read."""
    torch.save({"x": torch.ones(3)}, tmp_path / "file.pt", **OLD)
    content = (tmp_path / "file.pt").read_bytes()
    changed = content.replace(b"ctorch\nFloatStorage", b"ctorch.cuda\nFloatStorage").replace(
        b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"
    )
    assert changed != content
    (tmp_path / "file.pt").write_bytes(changed)
    file = TorchFile(tmp_path / "file.pt")
    assert torch.equal(file.tensor(file.content["x"]), torch.ones(3))


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("options", [{}, OLD])
def test_nothing_is_executed(options: dict[str, Any], protocol: int, tmp_path: Path) -> None:
    """Fault: a checkpoint runs a program on the machine of whoever converts it."""
    witness = tmp_path / "witness"
    torch.save({"model": {}, "args": Hostile(witness)}, tmp_path / "file.pt", pickle_protocol=protocol, **options)
    with pytest.raises(UserError, match=r"mkdir.* refused"):
        TorchFile(tmp_path / "file.pt")
    assert not witness.exists()


@pytest.mark.parametrize(
    "program",
    [
        b"cbuiltins\neval\n(V1\ntR.",
        b"c__builtin__\ngetattr\n.",
        b"(cos\nsystem\nVtrue\no.",
        b"(Vtrue\nios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
        b"\x80\x02\x82\x01.",  # an extension code
        b"ctorch\nload\n(VX\ntR.",
        b"ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x02K\x03K\x04tR.",
        b"K\x01K\x02(tR.",  # a call of a number
    ],
)
def test_programs_are_refused(program: bytes) -> None:
    """Fault: one of the ways in which a pickle calls a function is open."""
    with pytest.raises((UserError, ValueError)):
        read_pickle(io.BytesIO(program))


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02r\xff\xff\xff\x7f.",  # a memo of two thousand million entries
        b"\x80\x02K\x01r\xff\xff\xff\x7f.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",  # bytes of 8 exabytes
        b"T\xff\xff\xff\x7f.",
        b"]" + b"(2" * 200 + b".",
        b"(" * 100_000 + b"t" * 100_000 + b".",  # tuples in tuples
        b"]q\x00" + b"h\x00" * 1000 + b"(" + b"h\x00" * 5 + b"." * 2,
        b"]" + b"q\x00(h\x00h\x00t" * 2000 + b".",  # a list of lists, doubled two thousand times
    ],
)
def test_bombs_end_at_once(program: bytes) -> None:
    """Fault: a few bytes take all memory, or all time, or the interpreter's stack."""
    try:
        read_pickle(io.BytesIO(program))
    except (UserError, ValueError, IndexError):
        pass
    else:
        assert len(program) > 1000 or b"\x7f" in program  # deep or sparse, but no larger than the program


def test_copies_are_bounded() -> None:
    """Fault: a list of n entries is copied n times."""
    pairs = b"(" + b"(VA\nK\x01t" * 3000 + b"l" + b"q\x00"
    program = pairs + b"0" + b"ccollections\nOrderedDict\nq\x01" + b"h\x01(h\x00tR" * 10_000 + b"."
    with pytest.raises(ValueError, match="over and over"):
        read_pickle(io.BytesIO(program))


@pytest.mark.parametrize("name", ["std.pt", "legacy_v2.pt"])
def test_cut_files_are_refused(name: str, tmp_path: Path) -> None:
    """Fault: half a file is taken for a whole one, or ends in a traceback."""
    content = (GOLDEN / "fairseq_py" / name).read_bytes()
    for length in [0, 1, 3, 10, 30, 100, 5_000, 20_000, 26_100, len(content) // 2, len(content) - 1]:
        (tmp_path / "cut.pt").write_bytes(content[:length])
        with pytest.raises(UserError):
            TorchFile(tmp_path / "cut.pt")


@given(
    st.sampled_from(["std.pt", "legacy_v2.pt"]), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1)
)
def test_damaged_files_are_read_or_refused(tmp_path: Path, name: str, changes: list[tuple[float, int]]) -> None:
    """Fault: a changed byte leads to a traceback, to a tensor from beyond its data, or to endless work."""
    content = bytearray((GOLDEN / "fairseq_py" / name).read_bytes())
    for place, value in changes:
        content[int(place * 30_000)] = value
    (tmp_path / "damaged.pt").write_bytes(content)
    message = ""
    try:
        file = TorchFile(tmp_path / "damaged.pt")
        model = file.content["model"] if isinstance(file.content, dict) and "model" in file.content else {}
        for tensor in model.values() if isinstance(model, dict) else ():
            assert file.tensor(tensor).numel() <= len(content)
    except UserError as error:
        message = str(error)
    assert "\n" not in message


def stacked(count: int, size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> bytes:
    """A file of the old format whose tensor may claim more than its two numbers."""
    program = (
        b"ctorch._utils\n_rebuild_tensor\n((Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI%d\nNtQI%d\n" % (count, offset)
        + pickle.dumps(size, 0)[:-1]
        + pickle.dumps(stride, 0)[:-1]
        + b"tR."
    )
    head = [pickle.dumps(value, 2) for value in (STACKED_MAGIC, 1001, {"little_endian": True})]
    return b"".join([*head, program, pickle.dumps(["0"], 2), struct.pack("<qff", 2, 1.5, -2.0)])


def test_sizes_that_lie_are_refused(tmp_path: Path) -> None:
    """Fault: a tensor reads what lies behind its data, or fills the memory with repetitions of it."""
    path = tmp_path / "file.pt"
    path.write_bytes(stacked(2, (2,), (1,)))
    file = TorchFile(path)
    assert file.tensor(file.content).tolist() == [1.5, -2.0]
    lies: list[tuple[Any, ...]] = [
        (2, (3,), (1,)),
        (2**40, (2**40,), (1,)),
        (2, (2**59,), (0,)),
        (2, (2**40, 2**40), (0, 0)),
        (2, (2,), (-1,)),
        (2, (-2,), (1,)),
        (2, (2,), (1,), 1),
        (2, (2,), (1,), -1),
    ]
    for lie in lies:
        path.write_bytes(stacked(*lie))
        with pytest.raises(UserError, match="damaged"):
            TorchFile(path).tensor(TorchFile(path).content)


def test_text_is_no_model(tmp_path: Path) -> None:
    """Fault: a text file given for a model ends in the number of the pickle instruction that its first letter is."""
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(UserError, match=r"torch.save wrote, or damaged .it refers to what is not there"):
        TorchFile(path)


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    """Fault: an archive of a few kilobytes unpacks to fill the memory."""
    torch.save({"x": torch.zeros(100_000)}, tmp_path / "file.pt")
    with zipfile.ZipFile(tmp_path / "file.pt") as archive, zipfile.ZipFile(tmp_path / "bomb.pt", "w") as packed:
        for entry in archive.infolist():
            packed.writestr(entry.filename, archive.read(entry), zipfile.ZIP_DEFLATED)
    with pytest.raises(UserError, match="compressed"):
        TorchFile(tmp_path / "bomb.pt")


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """Fault: the archive's checksums are not looked at, and one weight of a model is silently another."""
    torch.save({"x": torch.arange(1000.0)}, tmp_path / "file.pt")
    content = bytearray((tmp_path / "file.pt").read_bytes())
    content[content.index(struct.pack("<f", 500.0))] ^= 1
    (tmp_path / "file.pt").write_bytes(content)
    with pytest.raises(UserError, match=r"file\.pt: .*data/0 is damaged: it does not have its checksum"):
        TorchFile(tmp_path / "file.pt")


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    """Fault: a wrong path ends in a traceback."""
    with pytest.raises(UserError, match="model="):
        TorchFile(tmp_path / "none.pt")
