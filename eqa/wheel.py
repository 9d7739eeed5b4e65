"""`BuildPy`: puts `train.py` and `eval.py`, which lie beside the folders of the package, into the wheel."""

from setuptools.command.build_py import build_py

COMMANDS = ("train", "eval")


class BuildPy(build_py):
    """Builds `eqa.train` and `eqa.eval` from the top of the repository, the rest as setuptools does."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        commands = [(package, name, f"{name}.py") for name in COMMANDS] if package == "eqa" else []
        return [*super().find_package_modules(package, package_dir), *commands]
