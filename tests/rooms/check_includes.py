"""Holds the rooms apart: which room may include which, and where vendor headers may appear.

    check_includes.py SOURCE_DIR     exit 1 with one line per violation

The tables mirror docs/architecture.md.
"""
import pathlib
import re
import sys

# room: rooms whose headers it may include besides its own. The longest matching folder is the room.
MAY_INCLUDE = {
    "core": [],
    "data": ["core"],
    "data/networks": ["core", "data"],
    "data/h5": ["core", "data"],
    "data/corpus": ["core", "data", "data/h5"],
    "mpi": ["core"],
    "collect": ["core", "data", "data/networks", "data/corpus", "mpi"],
    "collect/backends": ["core", "data", "collect", "collect/backends/cpu", "collect/backends/cuda",
                         "collect/backends/replay"],  # the registry
    "collect/backends/cpu": ["core", "data", "data/networks", "mpi", "collect", "collect/backends"],
    "collect/backends/cuda": ["core", "cuda", "data", "mpi", "collect", "collect/backends"],
    "cuda": ["core"],
    # Loaded at run time: the interface is all that it shares, besides formulas without data.
    "cuda/module": ["core", "cuda"],
    "collect/backends/replay": ["core", "data", "data/corpus", "collect", "collect/backends"],
    "train/model": ["core", "data", "data/h5"],
    "train/cuda": ["core", "cuda", "mpi", "train", "train/model"],
    "train": ["core", "data", "data/corpus", "data/h5", "mpi", "train/model"],
    "predict": ["core", "data", "data/networks", "train/model"],
    "cli": None,  # all
    "tests": None,
    "bench": None,
}

# A vendor's headers, by pattern: files or folders that may include them.
VENDORS = {
    r"mpi\.h": ["mpi/", "tests/mpi/"],
    r"hdf5.*\.h|H5.*\.h": ["data/h5/", "tests/h5/"],
    r"(oneapi/)?dnnl.*": ["collect/backends/cpu/", "train/gemm_onednn.cpp", "bench/"],
    r"hwloc.*": ["collect/backends/cpu/"],
    r"onnx/.*|google/protobuf/.*": ["data/networks/"],
    r"cuda.*|cudnn.*|cublas.*|nccl.*|nvml.*": ["cuda/module/", "tests/cuda/"],
    r"csv\.h|muParser.*": ["data/corpus/"],
    r"boost/program_options.*": ["cli/"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def room_of(path, rooms):
    """The deepest listed folder that `path` lies in."""
    matches = [room for room in rooms if path.startswith(room + "/")]
    return max(matches, key=len, default=None)


def violations(root):
    files = sorted(f for pattern in ("*.cpp", "*.hpp", "*.h", "*.cu", "*.cuh")
                   for f in root.rglob(pattern))
    for file in files:
        path = file.relative_to(root).as_posix()
        if path.startswith("build/"):
            continue
        room = room_of(path, MAY_INCLUDE)
        if room is None:
            yield f"{path}: lies in no room"
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            header = found.group(1)
            target = room_of(header, MAY_INCLUDE)
            allowed = MAY_INCLUDE[room]
            if target and allowed is not None and target != room and target not in allowed:
                yield f"{path}:{number}: {room}/ may not include {header}"
            for pattern, places in VENDORS.items():
                if target is None and re.fullmatch(pattern, header) and not path.startswith(tuple(places)):
                    yield f"{path}:{number}: {header} may be included in {', '.join(places)} only"


def self_test():
    """The check itself: it must see a violation of either kind."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "predict").mkdir()
        (root / "predict/bad.cpp").write_text('#include <mpi.h>\n#include "mpi/world.hpp"\n')
        assert len(list(violations(root))) == 2, list(violations(root))


if __name__ == "__main__":
    self_test()
    problems = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(problems) or "every include is allowed")
    sys.exit(1 if problems else 0)
