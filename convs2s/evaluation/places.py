"""Commands and paths as documents write them, without a word about the machine: data.root=DIR, runs/NAME/... ."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from convs2s.config import TrainConfig

# A path that leads out of the folder that commands start in: absolute, of the user's home, or through its parent.
OUTSIDE = re.compile(r"""(?<![^\s=\[,"'(])(?:~?/|\.\./)[^\s,\]"')]+""")
LEFT_OUT = ("run_dir=", "data.prepared_dir=")  # options of a command that only say where, where they lead outside


def kept_name(directory: Path, config: TrainConfig) -> str:
    """The name of a run among others: its folder's, with the experiment's before it where that is not there yet."""
    name = directory.name or directory.resolve().name
    own = name if name.startswith(config.experiment) else f"{config.experiment}-{name}"
    return re.sub(r"[^\w.,=-]+", "", own)


class Places:
    """Replaces a run's own paths: its directory by runs/NAME, its data's folder by DIR, other paths by DIR/..."""

    def __init__(self, directory: Path, config: TrainConfig) -> None:
        run = f"runs/{kept_name(directory, config)}"
        replaced = {str(directory): run, str(directory.resolve()): run, config.run_dir: run, config.data.root: "DIR"}
        away = {path: name for path, name in replaced.items() if outside(path)}
        self.rules = [
            (re.compile(re.escape(path.rstrip("/")) + r"""(?=[/\s,\]"')]|$)"""), away[path])
            for path in sorted(away, key=len, reverse=True)
        ]

    def text(self, text: str) -> str:
        for path, name in self.rules:
            text = path.sub(name, text)
        return cleaned(text)

    def tree(self, value: Any) -> Any:
        """The same for every text in nested dicts and lists."""
        if isinstance(value, dict):
            return {key: self.tree(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.tree(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def words(self, words: list[str]) -> list[str]:
        """The words of a command, from its script on."""
        if words[:1] == ["python"]:
            words = words[1:]
        script = [f"scripts/{Path(words[0]).name}"] if words else []
        return script + [
            self.text(word) for word in words[1:] if not (word.startswith(LEFT_OUT) and outside(word.partition("=")[2]))
        ]

    def command(self, command: str | list[str]) -> str:
        """A command that can be copied into a shell; "" where there is none."""
        words = split(command) if isinstance(command, str) else command
        return " ".join(["python", *map(shlex.quote, self.words(words))]) if words else ""


def cleaned(text: str) -> str:
    """A text, or option=text, with DIR/NAME for paths that lead out of the folder that commands start in."""
    option = match[0] if (match := re.match(r"[\w.+]+=", text)) else ""
    value = text.removeprefix(option)
    return option + (elsewhere(value) if outside(value) else OUTSIDE.sub(lambda match: elsewhere(match[0]), value))


def command_of(script: str, options: object) -> str:
    """A command that can be copied into a shell, from its options as written down; "" where they were not."""
    if not isinstance(options, list):
        return ""
    return " ".join(["python", script, *(shlex.quote(cleaned(str(option))) for option in options)])


def outside(path: str) -> bool:
    """Does a whole text lead out of the folder that commands start in?"""
    return path.startswith(("/", "~/", "../")) or path in ("..", "~")


def elsewhere(path: str) -> str:
    return f"DIR/{path.rstrip('/').rpartition('/')[2]}"


def split(command: str) -> list[str]:
    """The words of a command: of a shell's, or of one written down without quotes (new ones at options and flags)."""
    if command.startswith("python ") or "'" in command:
        with suppress(ValueError):  # an apostrophe that is no quote
            return shlex.split(command)
    return [word for word in re.split(r" (?=[\w.+~/@-]+=|-|scripts/)", command) if word]
