"""The Torch7 reader: what the original wrote, round trips through a writer of our own, and hostile files."""

from __future__ import annotations

import gzip
import itertools
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch7_writer import Code, Hash, Typed, Vec, Writer, dump

from convs2s.errors import UserError
from convs2s.interop import torch7
from convs2s.interop.torch7 import BooleanKey, Function, Object, Storage, Table, Tensor, load
from convs2s.interop.torch7_encoding import DTYPES

GOLDEN = Path(__file__).parents[1] / "golden"
FORMS = pytest.mark.parametrize("ascii", [False, True], ids=["binary", "ascii"])


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Reads bytes as a file."""
    path = tmp_path / "sample.th7"

    def read(content: bytes) -> Any:
        path.unlink(missing_ok=True)  # an earlier one may still be mapped
        path.write_bytes(content)
        return load(path)

    return read


def storage(element: str, values: Any) -> Storage:
    return Storage(f"torch.{element}Storage", np.array(values, DTYPES[element]))


def tensor(store: Storage, sizes: list[int], strides: list[int], offset: int = 0) -> Tensor:
    item = store.array.dtype.itemsize
    view = np.lib.stride_tricks.as_strided(store.array[offset:], sizes, [item * stride for stride in strides])
    return Tensor(store.kind.replace("Storage", "Tensor"), view, store)


def same(written: Any, found: Any) -> bool:
    """Equal in content, type and shape of reference: what is one object on one side is one on the other."""
    pairs: dict[int, int] = {}
    stack = [(written, found)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, (int, float, str, type(None))):
            if type(b) is not (float if type(a) is int else type(a)) or (a != b and a == a):
                return False
            continue
        if pairs.setdefault(id(a), id(b)) != id(b):
            return False
        if isinstance(a, Table):
            if type(b) is not Table or len(a.entries) != len(b.entries):
                return False
            for item in zip(a.entries.items(), b.entries.items(), strict=True):
                stack += zip(*item, strict=True)
        elif isinstance(a, tuple):
            if a != b:
                return False
        elif isinstance(a, Object):
            if type(b) is not Object or (a.kind, a.version) != (b.kind, b.version):
                return False
            stack.append((a.content, b.content))
        elif isinstance(a, Code):
            if type(b) is not Function:
                return False
            stack.append((a.upvalues, b.upvalues))
        else:
            if type(a) is not type(b) or a.kind != b.kind or a.array.dtype != b.array.dtype:
                return False
            if not np.array_equal(a.array, b.array, equal_nan=a.array.dtype.kind == "f"):
                return False
            if isinstance(a, Tensor):
                stack.append((a.storage, b.storage))
    return True


# --- files of the original ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["toy_a", "tiny_model_opt"])
def test_rewriting_a_file_gives_its_bytes(name: str, read: Any) -> None:
    """Fault: anything in a real file is lost, reordered or read wrongly, or a shared object becomes two."""
    content = gzip.decompress((GOLDEN / f"{name}.th7.gz").read_bytes())
    found = read(content)
    assert found.kind == "FConvModel"
    assert dump(found) == content
    assert dump(read(dump(found, ascii=True))) == content
    assert dump(read(dump(found, cuda=True))) == content


def test_dictionary(read: Any) -> None:
    """Fault: tds vectors or hashes are read with a wrong count, order or width of their size."""
    dictionary = read(gzip.decompress((GOLDEN / "dict_toy.src.th7.gz").read_bytes()))
    symbols = list(dictionary.get("index_to_symbol").sequence())
    assert symbols[:4] == ["<unk>", "<pad>", "</s>", "s4"]
    assert [dictionary.get("symbol_to_index").get(symbol) for symbol in symbols] == list(range(1, 24))
    assert dictionary.get("cutoff") == 23


def test_arrays_are_views_of_the_file(read: Any) -> None:
    """Fault: a storage is copied to memory, so that a file of several gigabytes does not fit, or can be written to."""
    store = storage("Float", range(1000))
    found = read(
        dump(Table({1: tensor(store, [10, 10], [10, 1], 5), 2: tensor(store, [10, 10], [1, 10], 5), 3: store}))
    )
    first, second, whole = found.sequence()
    assert first.storage is second.storage is whole
    assert np.shares_memory(first.array, second.array)
    assert not whole.array.flags.owndata
    assert not whole.array.flags.writeable
    assert np.array_equal(first.array, second.array.T)


def test_sparse_file_of_eight_gigabytes(tmp_path: Path) -> None:
    """Fault: sizes or offsets beyond 32 bits are cut, or opening the file reads it all."""
    path = tmp_path / "huge.th7"
    count = 1 << 30
    with path.open("wb") as file:
        writer = Writer()
        writer.integer(4)
        writer.integer(1)
        writer.head("torch.DoubleStorage", "1")
        writer.longs(count)
        file.write(writer.out)
        file.truncate(len(writer.out) + 8 * count)
        file.seek(-8, 2)
        file.write(struct.pack("<d", 2.5))
    tracemalloc.start()
    try:
        found = load(path)
        assert found.array.shape == (count,)
        assert found.array[-1] == 2.5
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# --- round trips --------------------------------------------------------------------------------------------------

TEXT = st.one_of(st.text(max_size=20), st.binary(max_size=20).map(lambda b: b.decode("utf-8", "surrogateescape")))


@st.composite
def arrays(draw: Any) -> Storage | Tensor:
    element = draw(st.sampled_from(sorted(DTYPES)))
    dtype = DTYPES[element]
    raw = draw(st.binary(max_size=40 * dtype.itemsize))
    values = np.frombuffer(raw[: len(raw) // dtype.itemsize * dtype.itemsize], dtype)
    store = Storage(f"torch.{element}Storage", values)
    if draw(st.booleans()):
        return store
    if len(values) < 4:
        return Tensor(f"torch.{element}Tensor", values[:0], draw(st.sampled_from([None, store])))
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    strides = [draw(st.integers(0, (len(values) - 1) // (2 * len(sizes)))) for _ in sizes]
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return tensor(store, sizes, strides, draw(st.integers(0, len(values) - 1 - last)))


@st.composite
def values(draw: Any, depth: int = 3) -> Any:
    """Any value; composite ones come from a pool too, so that objects are shared."""
    scalar = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(-5, 5), TEXT)
    pool: list[Any] = [draw(arrays())]

    def value(depth: int) -> Any:
        kind = draw(st.integers(0, 9)) if depth else 0
        if kind < 4:
            return draw(scalar)
        if kind == 4:
            return pool[draw(st.integers(0, len(pool) - 1))]
        if kind == 5:
            found: Any = draw(arrays())
        elif kind == 6:
            found = Code(draw(st.sampled_from([7, 8])), draw(st.binary(max_size=9)), value(depth - 1))
        elif kind == 7:
            found = Object(draw(st.sampled_from(["nn.Linear", "odd", "tds.Other"])), "1", value(depth - 1))
        else:
            found = Table()
            pool.append(found)  # so that a table may hold itself
            for _ in range(draw(st.integers(0, 4))):
                key, item = draw(st.one_of(st.floats(allow_nan=False), TEXT, st.booleans())), value(depth - 1)
                if item is not None:
                    found.entries[BooleanKey(key) if isinstance(key, bool) else key] = item
        pool.append(found)
        return found

    return value(depth)


@FORMS
@given(value=values())
def test_round_trip(value: Any, ascii: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fault: a type, an odd string, a number, a stride or a shared object does not come back as it was written."""
    path = tmp_path_factory.mktemp("round") / "sample.th7"
    path.write_bytes(dump(value, ascii=ascii))
    assert same(value, load(path))


@FORMS
@pytest.mark.parametrize("element", sorted(DTYPES))
def test_every_element_type(element: str, ascii: bool, read: Any) -> None:
    """Fault: a type has the wrong width or sign, or its extremes do not survive."""
    dtype = DTYPES[element]
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    special = [] if dtype.kind in "iu" else [np.nan, np.inf, -np.inf, -0.0, limits.tiny]
    store = storage(element, [limits.min, limits.max, 0, 1, *special])
    found = read(dump(store, ascii=ascii)).array
    assert found.dtype == dtype
    assert found.tobytes() == store.array.tobytes()


@FORMS
@pytest.mark.parametrize("element", sorted(DTYPES))
def test_gpu_names(element: str, ascii: bool, read: Any) -> None:
    """Fault: tensors that lay on a GPU (torch.CudaTensor, torch.CudaLongTensor, ...) are refused or mistyped."""
    content = dump(tensor(storage(element, range(6)), [3, 2], [1, 3]), ascii=ascii, cuda=True)
    cuda = b"Cuda" if element == "Float" else b"Cuda" + element.encode()
    assert b"torch." + cuda + b"Tensor" in content
    assert b"torch." + cuda + b"Storage" in content
    found = read(content)
    assert found.kind == f"torch.{element}Tensor"
    assert found.array.tolist() == [[0, 3], [1, 4], [2, 5]]


@FORMS
def test_long_string(ascii: bool, read: Any) -> None:
    """Fault: long strings are cut, or bytes that are not UTF-8 are lost."""
    text = bytes(range(256)) * 8192
    assert read(dump(text, ascii=ascii)).encode("utf-8", "surrogateescape") == text


@FORMS
def test_tds(ascii: bool, read: Any) -> None:
    """Fault: a tds vector or hash with nil, nested or shared elements throws the reading off its position."""
    shared = Table({"a": 1.0})
    written = Table({1: Vec([shared, None, "x", Vec([])]), 2: Hash([("k", shared), (3.0, Hash([]))]), 3: "end"})
    vector, hashed, end = read(dump(written, ascii=ascii)).sequence()
    assert list(vector.entries) == [1, 3, 4]
    assert vector.get(1) is hashed.get("k")
    assert hashed.get(3).entries == {}
    assert end == "end"


@FORMS
def test_functions_are_skipped(ascii: bool, read: Any) -> None:
    """Fault: byte code is taken for data, the upvalues are not skipped, or a shared function is read twice."""
    code = Code(8, b"\x1bLJ\x02" + b"os.execute('touch /tmp/x')", Table({1: Table({"name": "_ENV"})}))
    written = Table({1: Code(6, b"", Table()), 2: code, 3: code, 4: Code(7, b"x", 5.0), 5: "end"})
    functions = list(read(dump(written, ascii=ascii)).sequence())
    assert [type(item) for item in functions] == [Function] * 4 + [str]
    assert functions[1] is functions[2]
    assert functions[3].upvalues == 5.0


def test_classes_without_version(read: Any) -> None:
    """Fault: the oldest files, whose class names are not preceded by a version, are refused."""
    found = read(dump(Typed("torch.FloatStorage", storage("Float", [1, 2]), version=None)))
    assert found.array.tolist() == [1, 2]


@FORMS
def test_expanded_tensor(ascii: bool, read: Any) -> None:
    """Fault: a tensor that repeats its storage (stride 0) is refused, or copied to its full size."""
    found = read(dump(tensor(storage("Float", [7]), [1000, 1000], [0, 0]), ascii=ascii))
    assert found.array.shape == (1000, 1000)
    assert found.array.base is not None
    assert (found.array == 7).all()


# --- damaged and hostile files ------------------------------------------------------------------------------------


def sample(ascii: bool) -> bytes:
    """A small file with one of everything."""
    store = storage("Float", np.arange(12) / 7)
    table = Table({"self": None, "t": tensor(store, [3, 4], [4, 1]), "u": tensor(store, [2, 2], [1, 2], 3)})
    table.entries["self"] = table
    table.entries[BooleanKey(True)] = Object("nn.Linear", "1", Table({"bias": storage("Long", [1, -2, 3])}))
    table.entries[1] = Vec(["a", None, Hash([("k", 2.0)])])
    table.entries[2] = Code(8, b"code", Table({1: storage("Byte", [1, 2]), 2: storage("Half", [0.5])}))
    table.entries["words"] = "some words" * 3
    return dump(table, ascii=ascii)


def attempt(read: Any, content: bytes) -> str | None:
    """The error that reading gives, None where it gives none; any other exception is a failure of the test."""
    try:
        read(content)
    except UserError as error:
        return str(error)
    return None


@FORMS
def test_truncation_everywhere(ascii: bool, read: Any) -> None:
    """Fault: a file that was cut short is read as if it were whole, or ends in another exception."""
    content = sample(ascii)
    for length in range(len(content) - 2):  # without its last number an ascii file may still read well
        message = attempt(read, content[:length])
        assert message is not None, length
        assert "sample.th7" in message
        assert "offset" in message
        assert "\n" not in message


@FORMS
def test_fuzz(ascii: bool, read: Any) -> None:
    """Fault: a damaged file ends in something else than UserError or a value, or takes memory beyond its size."""
    generator = random.Random(7)
    clean = sample(ascii)
    words = [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"-1", b"9" * 19, b"nan", b"\n", b" "]
    refused = 0
    tracemalloc.start()
    try:
        for _ in range(2500):
            content = bytearray(clean)
            for _ in range(generator.choice([1, 1, 2, 5])):
                at = generator.randrange(len(content))
                kind = generator.randrange(5)
                if kind == 0:
                    content[at] ^= 1 << generator.randrange(8)
                elif kind == 1:
                    content[at] = generator.randrange(256)
                elif kind == 2:
                    del content[at:]
                elif kind == 3:
                    word = generator.choice(words)
                    content[at : at + len(word)] = word
                else:
                    other = generator.randrange(len(content))
                    content[at:at] = content[other : other + generator.randrange(40)]
                if not content:
                    break
            refused += attempt(read, bytes(content)) is not None
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert refused > 600


def record(*parts: int | bytes) -> bytes:
    """Binary: integers of 32 bits, and bytes as they are."""
    return b"".join(struct.pack("<i", part) if isinstance(part, int) else part for part in parts)


def long(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def name(text: str) -> bytes:
    return record(len(text), text.encode())


FLOATS = record(4, 2, name("V 1"), name("torch.FloatStorage"), long(2), bytes(8))


def floats(dimensions: int, longs: bytes, content: bytes = FLOATS) -> bytes:
    return record(4, 1, name("V 1"), name("torch.FloatTensor"), dimensions, longs, content)


HOSTILE = {
    "empty": b"",
    "one byte": b"\x04",
    "other file": b"PK\x03\x04 and so on",
    "text": b"no numbers here",
    "unknown type": record(3, 1, 1, 9, 0),
    "negative type": record(3, 1, 1, -1, 0),
    "boolean of 2": record(5, 2),
    "negative string": record(2, -1),
    "long string": record(2, 2**31 - 1, b"abc"),
    "large table": record(3, 1, 2**31 - 1, 1),
    "negative table": record(3, 1, -1),
    "nil as key": record(3, 1, 1, 0, 1, bytes(8)),
    "nan as key": record(3, 1, 1, 1, struct.pack("<d", np.nan), 1, bytes(8)),
    "large vector": record(4, 1, name("V 0"), name("tds.Vec"), long(2**62), bytes(40)),
    "large hash": record(4, 1, name("V 0"), name("tds.Hash"), long(2**62), bytes(40)),
    "large storage": record(4, 1, name("V 1"), name("torch.DoubleStorage"), long(2**61), bytes(8)),
    "negative storage": record(4, 1, name("V 1"), name("torch.DoubleStorage"), long(-1)),
    "many dimensions": floats(2**31 - 1, long(1, 1, 1)),
    "negative dimensions": floats(-1, long(1)),
    "beyond its storage": floats(1, long(3, 1, 1)),
    "offset beyond its storage": floats(1, long(1, 1, 3)),
    "offset 0": floats(1, long(1, 1, 0)),
    "negative stride": floats(1, long(2, -1, 2)),
    "negative size": floats(1, long(-2, 1, 1)),
    "expanded without end": floats(2, long(2**40, 2**40, 0, 0, 1)),
    "products that overflow": floats(2, long(2**32, 2**32, 2**32, 2**32, 1)),
    "storage of another type": floats(1, long(1, 1, 1), record(4, 2, name("torch.LongStorage"), long(1, 7))),
    "tensor inside itself": floats(1, long(1, 1, 1), record(4, 1)),
    "no storage": floats(1, long(1, 1, 1), record(0)),
    "depth bomb": record(*itertools.chain.from_iterable((3, index, 1) for index in range(50_000))),
    "depth bomb of objects": b"".join(record(4, index, name("V 1"), name("a")) for index in range(50_000)),
    "depth bomb of functions": record(6, 0) * 50_000,
    "ascii depth bomb": b"".join(b"3\n%d\n1\n" % index for index in range(50_000)),
    "ascii large integer": b"3\n1\n" + b"1" * 1_000_000,
    "ascii 64 bits": b"3\n4294967297\n1\n",
    "ascii words": b"3\none\n1\n",
    "ascii number": b"1\n0x10\n",
    "ascii string": b"2\n2147483647\nabc\n",
    "ascii storage too long": b"4\n1\n3\nV 1\n17\ntorch.LongStorage\n9\n1 2 3\n",
    "ascii storage too short": b"4\n1\n3\nV 1\n17\ntorch.LongStorage\n2\n1 2 3\n",
    "ascii storage over lines": b"4\n1\n3\nV 1\n17\ntorch.LongStorage\n3\n1 2\n3\n",
    "ascii storage of words": b"4\n1\n3\nV 1\n17\ntorch.LongStorage\n3\n1 two 3\n",
    "ascii storage of reals": b"4\n1\n3\nV 1\n17\ntorch.LongStorage\n3\n1 2.5 3\n",
    "ascii storage beyond its type": b"4\n1\n3\nV 1\n18\ntorch.ShortStorage\n1\n70000\n",
    "ascii storage of huge numbers": b"4\n1\n3\nV 1\n17\ntorch.LongStorage\n1\n" + b"9" * 5000 + b"\n",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile(case: str, read: Any) -> None:
    """Fault: sizes that lie, cycles or depth bombs crash the reader, exhaust memory, or pass."""
    tracemalloc.start()
    try:
        message = attempt(read, HOSTILE[case])
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert message is not None
    assert "sample.th7: offset " in message
    assert "\n" not in message
    assert len(message) < 400


def test_too_many_values(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a file of nothing but small values fills the memory."""
    monkeypatch.setattr(torch7, "MAX_VALUES", 100)
    assert len(read(dump(Vec([1.0] * 99))).entries) == 99
    with pytest.raises(UserError, match="more than 100 values"):
        read(dump(Vec([1.0] * 101)))


def test_deep_but_honest(read: Any) -> None:
    """Fault: nesting that Lua can write fails on Python's recursion limit."""
    deep = Table()
    for _ in range(4000):
        deep = Table({1: deep})
    found, depth = read(dump(deep)), 0
    while found.entries:
        found, depth = found.get(1), depth + 1
    assert depth == 4000


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Fault: a missing file or a folder ends in a traceback."""
    for path in (tmp_path / "none.th7", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            load(path)
