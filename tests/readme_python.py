"""`python` and `torchrun` for the test of the README: every command is its own process, PyTorch is loaded only once.

``serve`` waits at a socket, forks for each command and runs it there as the interpreter would. ``CLIENT`` is the
program that stands in for `python` and `torchrun` on the path: it hands over its words, folder, environment and
streams, and ends with the command's status.

    python tests/readme_python.py SOCKET SIZES     SIZES: the options, one a line, that make every training tiny
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import shlex
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from hydra.core.plugins import Plugins

CLIENT = """import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    sys.exit(server.recv(1)[0])
"""
LOADED = [  # once, for all commands; the last ones come from the clone
    *("torch", "torch.utils.tensorboard", "torch.distributed.run", "hydra", "sentencepiece", "sacrebleu", "sacremoses"),
    *("convs2s.cli", "convs2s.training.loop", "convs2s.evaluation.evaluate", "convs2s.evaluation.report"),
]
# Not run but composed and checked as far as a machine alone can: what needs a second machine, or data from the hub.
NEED_HUB = ("experiment=wmt", "experiment=iwslt14", "experiment=gigaword")


def serve(path: str, sizes: list[str]) -> None:
    for module in LOADED:
        importlib.import_module(module)
    Plugins.instance()  # Hydra looks for them once
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while True:
            client, _ = server.accept()
            with client:
                head, streams, _, _ = socket.recv_fds(client, 4, 3)
                request = b""
                while len(request) < int.from_bytes(head, "big"):
                    request += client.recv(1 << 16)
                child = os.fork()
                if child == 0:
                    server.close()
                    execute(*json.loads(request), streams, sizes)
                for stream in streams:
                    os.close(stream)
                _, status = os.waitpid(child, 0)
                with suppress(OSError):  # who asked may have gone
                    client.sendall(bytes([os.waitstatus_to_exitcode(status) % 256]))


def execute(words: list[str], folder: str, environment: dict[str, str], streams: list[int], sizes: list[str]) -> None:
    """Be that command, to its end."""
    status = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        program, *arguments = adapted(words, sizes)
        if program == "torchrun":
            from torch.distributed.run import main

            main(arguments)
        else:
            sys.argv = arguments
            sys.path[0] = str(Path(arguments[0]).resolve().parent)
            runpy.run_path(arguments[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for out in (sys.stdout, sys.stderr):
            with suppress(OSError):
                out.flush()
        os._exit(status)


def adapted(words: list[str], sizes: list[str]) -> list[str]:
    """A command as it is run here: every word of it, and options behind them that make it small."""
    program, *arguments = words
    script = next((i for i, word in enumerate(arguments) if word.endswith(".py")), None)
    if script is None:
        raise ValueError(f"no script in: {shlex.join(words)}")
    flags, script_words = arguments[:script], arguments[script:]
    if program == "torchrun":
        from torch.distributed.run import get_args_parser

        parsed = get_args_parser().parse_args(arguments)  # refuses unknown flags
        if parsed.nnodes != "1:1":  # another machine
            return ["python", *script_words, "--cfg", "job"]
        flags = ["--standalone", *(word if word != parsed.nproc_per_node else "2" for word in flags)]  # a free port
    name = Path(script_words[0]).name
    if any(word.startswith(NEED_HUB) for word in script_words):
        return ["python", *script_words, "--cfg", "job"]
    if name == "train.py":
        script_words = [word for word in script_words if not word.startswith(("hydra/launcher=", "hydra.launcher."))]
        if "--config-name" not in script_words:  # a run's own configuration is small already
            script_words += sizes
    if name == "benchmark.py":
        script_words += {
            "train": ["sentences=2", "length=3", "repeat=1"],
            "generate": ["sentences=2", "single_sentences=1", "batches=[2]", "beams=[1]", "repeat=1"],
            "data": ["pairs=1000", "lines=[100,200]", "vocabulary_size=300"],
        }[script_words[1]]
    return [program, *flags, *script_words]


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]).read_text("utf-8").splitlines())
