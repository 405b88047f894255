"""The shape of the code as figures: `make shape` prints them, `test_order.py` holds some of them.

They are there to be looked at. Nothing that counts lines fails a build: a limit is met by cutting.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.compiled_modules import FILES

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "crawlfleet"
DEPENDENT: Final = re.compile(
    r"(What|How|Whether|Of|Those|That|Which|Who|Whoever|Whose|Whom|Where|The same|So many|So much|"
    r"As many|As much|Also|Too|Such|Its|Their|They|It|Them|Said|Told|Asked|Made|Kept|Only|Else|"
    r"Otherwise|And|Or|But|With|Without|By|From|In|On|At|For|To|Then|There)\b"
)
"""A docstring that begins with one of these words needs the line before it."""
LIST_FOLDER: Final = 20
"""A folder with more modules is a list of resources, or a heap."""


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module of the package, by its path below the package."""
    return {
        path.relative_to(SOURCE): ast.parse(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def class_names() -> dict[str, list[Path]]:
    """The modules that define each public class name at their top."""
    found = defaultdict(list)
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return found


def class_names_twice() -> dict[str, list[Path]]:
    """The public class names that more than one module defines."""
    return {name: paths for name, paths in class_names().items() if len(paths) > 1}


def docstrings() -> Iterator[tuple[Path, str]]:
    """Every docstring, those of fields and constants included."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) else ():
                if (
                    isinstance(statement, ast.Expr)
                    and isinstance(statement.value, ast.Constant)
                    and isinstance(statement.value.value, str)
                ):
                    yield path, statement.value.value.strip()


def imports() -> dict[str, set[str]]:
    """The modules of the package that each module imports, wherever it does so."""
    names = {_dotted(path): path for path in trees()}
    found: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(trees()[path]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crawlfleet"):
                for alias in node.names:
                    for target in (f"{node.module}.{alias.name}", node.module or ""):
                        if target in names:
                            found[name].add(target)
                            break
    return found


def longest_chain() -> int:
    """How many modules the longest chain of imports has; a cycle counts once."""
    graph = imports()
    depth: dict[str, int] = {}
    under_way: set[str] = set()

    def walk(name: str) -> int:
        if name not in depth:
            if name in under_way:
                return 0
            under_way.add(name)
            depth[name] = 1 + max((walk(each) for each in graph[name]), default=0)
            under_way.discard(name)
        return depth[name]

    return max(walk(name) for name in graph)


def methods(path: str, class_name: str) -> int:
    """How many methods a class has."""
    tree = trees()[Path(path)]
    (found,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name)
    return sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in found.body)


def compiled() -> int:
    """How many modules are compiled in a compiled wheel."""
    return len(FILES)


def figures() -> list[tuple[str, str]]:
    """What `make shape` prints, as names and values."""
    modules = [path for path in trees() if path.name != "__init__.py"]
    lines = sum(len((SOURCE / path).read_text("utf-8").splitlines()) for path in trees())
    folders = Counter(str(path.parent) for path in modules)
    large = ", ".join(f"{name} {n}" for name, n in folders.most_common() if n > LIST_FOLDER)
    texts = [text for _, text in docstrings()]
    dependent = sum(DEPENDENT.match(text) is not None for text in texts)
    contracts = (ROOT / ".importlinter").read_text("utf-8")
    return [
        ("modules", f"{len(modules):,}"),
        ("lines", f"{lines:,}"),
        ("folders", f"{len(folders)}"),
        (f"folders with more than {LIST_FOLDER} modules", large or "none"),
        ("public class names defined twice or more", f"{len(class_names_twice())}"),
        ("docstrings", f"{len(texts):,}"),
        ("docstrings that cannot be read alone", f"{dependent / len(texts):.0%}"),
        ("methods of the Store port", f"{methods('ports/store.py', 'Store')}"),
        ("longest chain of imports", f"{longest_chain()}"),
        ("imports against the layers", f"{len(re.findall('->', contracts))}"),
        ("compiled modules", f"{compiled()}"),
    ]


def _dotted(path: Path) -> str:
    parts = ("crawlfleet", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    for name, value in figures():
        print(f"{name:<45} {value}")
