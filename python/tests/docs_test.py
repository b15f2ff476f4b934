"""The code of docs/ runs."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def blocks_of(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (REPOSITORY / "docs" / page).read_text(), re.M | re.S)


def test_the_python_page(monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    blocks = blocks_of("python.md", "python")
    assert len(blocks) == 4
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


def test_the_c_page(tmp_path):
    program = pathlib.Path(os.environ.get("DEEPINFER_PROGRAM", REPOSITORY / "build" / "deepinfer")).resolve()
    libraries = program.parent / "lib"
    compiler = shutil.which("cc")
    if compiler is None or not (libraries / "libdeepinfer.so").exists():
        pytest.skip("no C compiler, or no libdeepinfer beside the program")
    (block,) = blocks_of("c_api.md", "c")
    (tmp_path / "program.c").write_text(block)
    subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{REPOSITORY / 'include'}", str(tmp_path / "program.c"),
         f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ldeepinfer", "-o", str(tmp_path / "program")], check=True)
    done = subprocess.run([str(tmp_path / "program")], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(("[length]\n", "[stop]\n")) and len(done.stdout) > 15


def test_an_installation_is_enough_to_build_against(tmp_path):
    build = pathlib.Path(os.environ.get("DEEPINFER_PROGRAM", REPOSITORY / "build" / "deepinfer")).resolve().parent
    compiler = shutil.which("c++")
    if compiler is None or shutil.which("pkg-config") is None or not (build / "deepinfer.pc").exists():
        pytest.skip("no compiler, no pkg-config, or no build to install")
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(tmp_path)], check=True, capture_output=True)
    pages = [path.parent for path in tmp_path.rglob("deepinfer.pc")]
    # The prefix of pkg-config is the one of configuration; the files have moved with --prefix.
    flags = subprocess.run(["pkg-config", "--define-prefix", "--cflags", "--libs", "deepinfer"], capture_output=True, text=True, check=True,
                           env={**os.environ, "PKG_CONFIG_PATH": str(pages[0])}).stdout.split()
    subprocess.run([compiler, "-std=c++20", str(REPOSITORY / "examples" / "stream.cpp"), *flags, "-o", str(tmp_path / "stream")], check=True)
    library = next(tmp_path.rglob("libdeepinfer.so"))
    model = next(tmp_path.rglob("v41-mini"))
    done = subprocess.run([str(tmp_path / "stream"), str(model)], capture_output=True, text=True, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)})
    assert done.returncode == 0 and "tokens]" in done.stdout, done.stderr
    exported = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1].split("@")[0] for line in exported.splitlines()]
    assert names and all(name.startswith("di_") or name == "DEEPINFER_1" for name in names)
    program = next((tmp_path / "bin").glob("deepinfer"))
    assert subprocess.run([str(program), "doctor"], capture_output=True, check=False).returncode == 0
